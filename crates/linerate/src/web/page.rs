//! The frame around an answer: where one is, where else one can go, in which forms the page can be had.

use maud::{Markup, html};

use super::Lab;
use super::request::WebRequest;
use crate::render::html::frame;

/// The pages that every page leads to: address, title, and the letter that goes there.
const PAGES: [(&str, &str, char); 8] = [
    ("/", "Overview", 'o'),
    ("/records", "Records", 'r'),
    ("/campaigns", "Campaigns", 'c'),
    ("/compare", "Compare", 'd'),
    ("/history", "History", 'h'),
    ("/plans", "Plans", 'p'),
    ("/machines", "Machines", 'm'),
    (TEAM, "Team", 't'),
];

/// It is there where a queue is.
const TEAM: &str = "/team";

/// What a page is.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// What stands above the answer: fields and buttons.
    pub(super) above: Markup,
    pub(super) inner: Markup,
    /// The forms in which the whole page can be had.
    pub(super) forms: &'a [(&'a str, &'a str)],
}

pub(super) fn page(lab: &Lab, asked: &WebRequest, page: &Page<'_>) -> String {
    let open = asked.open_address();
    let here = match asked.path().first() {
        None => "/".to_owned(),
        Some(&("job" | "jobs")) => TEAM.to_owned(),
        Some(first) => format!("/{first}"),
    };
    let pages = || PAGES.iter().filter(|(address, ..)| *address != TEAM || lab.has_team());
    let body = html! {
        a class="skip" href="#main" { "To the page itself" }
        header {
            nav aria-label="Pages" {
                ul {
                    @for (address, title, letter) in pages() {
                        @let is_here = *address == here || address.strip_suffix('s') == Some(&here);
                        li { a href=(address) data-key=(letter) aria-current=[is_here.then_some("page")] { (title) } }
                    }
                }
            }
        }
        main id="main" tabindex="-1" {
            h1 { (page.title) }
            (page.above)
            (page.inner)
            @if !page.forms.is_empty() {
                p class="forms" {
                    "This page as "
                    @for (at, (form, name)) in page.forms.iter().enumerate() {
                        @if at > 0 { " · " }
                        a href=(format!("{open}form={form}")) { (name) }
                    }
                }
            }
        }
        footer {
            p {
                "Records: " code { (lab.store.display()) } ". "
                @if lab.allowed.run { "Campaigns can be started here" } @else { "Looking only: --allow-run lets campaigns be started here" }
                @if lab.allowed.settings { "; settings can be changed" }
                @if lab.allowed.commands { "; programs can be run" }
                "."
            }
            form method="post" action="/session/end" { button type="submit" { "Sign out" } }
        }
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl {
                dt { kbd { "?" } } dd { "these keys" }
                dt { kbd { "/" } } dd { "the first field of the page" }
                @for (_, title, letter) in pages() {
                    dt { kbd { "g" } " " kbd { (letter) } } dd { (title) }
                }
            }
            form method="dialog" {
                p { label { input type="checkbox" id="keys-on" checked; " Keys of one letter do something" } }
                button type="submit" { "Close" }
            }
        }
    };
    framed(page.title, "page.js", &body)
}

/// The page that tells a browser without a cookie how to sign in.
pub(super) fn sign_in() -> String {
    let body = html! {
        main id="main" {
            h1 { "Sign in" }
            p id="said" role="status" {
                "Open the whole address that linerate web printed, with what stands behind #; or copy the token from there."
            }
            form id="sign-in" method="post" action="/session" {
                label for="token" { "Token" }
                input id="token" name="token" type="password" autocomplete="off" required;
                button type="submit" { "Sign in" }
            }
        }
    };
    framed("Sign in", "sign_in.js", &body)
}

/// With the style sheet and a script of the server's own.
fn framed(title: &str, script: &str, body: &Markup) -> String {
    let head = html! {
        link rel="stylesheet" href="/asset/style.css";
        link rel="icon" href="data:,";
        script type="module" src=(format!("/asset/{script}")) {}
    };
    frame(&format!("{title} – linerate"), &head, body)
}
