//! What can be seen: an address a row, each with the function that answers it, and the forms that every answer has.

mod actions;
mod campaigns;
mod judging;
mod machines;
mod metrics;
mod overview;
mod plans;
mod records;
mod running;
#[cfg(feature = "nats")]
mod team;

use std::fmt;

use anyhow::Result;
use linerate_machine::printable::in_line;
use maud::{Markup, html};

use super::Lab;
use super::asked::Asked;
use super::page::{Page, page};
use super::reply::{Reply, kind};
use crate::render::answer::{Answer, Part};

type Handler = fn(&Lab, &Asked) -> Result<Shown>;

/// What can be asked for; `*` is any part of a path. GET changes nothing.
const LOOKING: &[(&[&str], Handler)] = &[
    (&[], overview::overview),
    (&["records"], records::list),
    (&["record", "*"], records::one),
    (&["record", "*", "explain"], records::explained),
    (&["campaigns"], campaigns::list),
    (&["campaign", "*"], campaigns::one),
    (&["compare"], judging::compare),
    (&["history"], judging::history),
    (&["report"], judging::report),
    (&["runs"], running::list),
    (&["run", "*"], running::one),
    (&["run", "*", "live"], running::live),
    (&["plans"], plans::list),
    (&["plan", "*"], plans::one),
    (&["plan", "*", "matrix"], plans::matrix),
    (&["metrics"], metrics::metrics),
    (&["machines"], machines::list),
    (&["machine", "*"], machines::one),
    (&["machine", "*", "*"], machines::part),
    (&["machine", "*", "counters", "live"], machines::live),
    #[cfg(feature = "nats")]
    (&["team"], team::overview),
    #[cfg(feature = "nats")]
    (&["team", "live"], team::overview_live),
    #[cfg(feature = "nats")]
    (&["jobs"], team::jobs),
    #[cfg(feature = "nats")]
    (&["job", "*"], team::job),
    #[cfg(feature = "nats")]
    (&["job", "*", "live"], team::job_live),
];

/// What can be done.
const DOING: &[(&[&str], Handler)] = &[
    (&["plans", "try"], plans::tried),
    (&["runs"], actions::start),
    (&["run", "*", "stop"], actions::stop),
    (&["campaign", "*", "resume"], actions::resume),
    (&["machine", "*", "set"], actions::set),
    (&["machine", "*", "restore"], actions::restore),
    #[cfg(feature = "nats")]
    (&["job", "*", "cancel"], team::cancel),
];

/// What a view makes.
pub(super) enum Shown {
    Page(View),
    /// As it is.
    Raw(Reply),
}

/// A page before it has a form.
pub(super) struct View {
    title: String,
    above: Markup,
    answer: Answer,
    /// Forms of its own, beside those that every answer has.
    forms: &'static [(&'static str, &'static str)],
    status: u16,
}

impl View {
    fn new(title: impl Into<String>, answer: Answer) -> View {
        View { title: title.into(), above: html! {}, answer, forms: &[], status: 200 }
    }

    fn above(self, above: Markup) -> View {
        View { above, ..self }
    }

    /// With forms that the view makes itself where they are asked for.
    fn forms(self, forms: &'static [(&'static str, &'static str)]) -> View {
        View { forms, ..self }
    }

    fn status(self, status: u16) -> View {
        View { status, ..self }
    }

    fn shown(self) -> Result<Shown> {
        Ok(Shown::Page(self))
    }
}

/// Why a request was not carried out: with a status of its own.
#[derive(Debug)]
struct Refused {
    status: u16,
    sentence: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}

impl std::error::Error for Refused {}

fn refused(status: u16, sentence: impl Into<String>) -> anyhow::Error {
    Refused { status, sentence: sentence.into() }.into()
}

/// Why it was not carried out, where a person reads it.
fn refusal(error: &anyhow::Error) -> Markup {
    html! { p class="refused" role="alert" { (plain(&format!("{error:#}"))) } }
}

/// What is not allowed names the flag that would allow it.
fn need(is_allowed: bool, flag: &str, why: &str) -> Result<()> {
    if is_allowed {
        return Ok(());
    }
    Err(refused(403, format!("{why}; {flag}, where linerate web was started, allows it")))
}

/// Answers a request.
pub(super) fn answer(lab: &Lab, asked: &Asked) -> Reply {
    let shown = handler(asked).and_then(|handler| handler(lab, asked));
    let view = match shown {
        Ok(Shown::Raw(reply)) => return reply,
        Ok(Shown::Page(view)) => view,
        Err(error) => {
            let status = error.downcast_ref::<Refused>().map_or(400, |refused| refused.status);
            if asked.value("form").is_some() {
                return Reply::said(status, &plain(&format!("{error:#}")));
            }
            let title = if status == 404 { "Not found" } else { "This was not done" };
            View::new(title, Answer::default()).above(refusal(&error)).status(status)
        }
    };
    in_form(lab, asked, &view)
}

fn handler(asked: &Asked) -> Result<Handler> {
    let path = asked.path();
    let find = |all: &[(&'static [&'static str], Handler)]| {
        let is = |pattern: &[&str]| {
            pattern.len() == path.len() && pattern.iter().zip(&path).all(|(one, part)| *one == "*" || one == part)
        };
        all.iter().find(|(pattern, _)| is(pattern)).map(|(_, handler)| *handler)
    };
    match (find(LOOKING), find(DOING), asked.is_post) {
        (_, Some(handler), true) | (Some(handler), _, false) => Ok(handler),
        (None, None, _) => Err(refused(404, "There is no such page; the links above lead to those that there are.")),
        _ => Err(refused(405, "This address is for the other of GET and POST.")),
    }
}

/// In the form that is asked for.
fn in_form(lab: &Lab, asked: &Asked, view: &View) -> Reply {
    let number = |name| asked.value(name).and_then(|text| text.parse().ok());
    let part = number("table").map(Part::Table).or_else(|| number("figure").map(Part::Figure));
    let told = match (asked.value("form"), part) {
        (None, _) => {
            let mut forms = view.forms.to_vec();
            if !view.answer.is_empty() {
                forms.extend([("markdown", "Markdown"), ("text", "plain text")]);
            }
            let inner = view.answer.html(&asked.open_address());
            let frame = Page { title: &view.title, above: view.above.clone(), inner, forms: &forms };
            return Reply::new(view.status, kind::HTML, page(lab, asked, &frame));
        }
        (Some("markdown"), None) => Some((kind::MARKDOWN, view.answer.markdown())),
        (Some("text"), None) => Some((kind::TEXT, view.answer.text(COLUMNS))),
        (Some("csv"), Some(part)) => view.answer.csv_of(part).map(|text| (kind::CSV, text)),
        (Some("json"), Some(part)) => view.answer.json_of(part).map(|text| (kind::JSON, text)),
        (Some("markdown"), Some(part)) => view.answer.markdown_of(part).map(|text| (kind::MARKDOWN, text)),
        (Some("svg"), Some(part)) => view.answer.svg_of(part).map(|text| (kind::SVG, text)),
        _ => None,
    };
    match told {
        Some((kind, text)) => Reply::new(view.status, kind, text),
        None => Reply::said(404, "There is no such part or form of this page; its links name those that there are."),
    }
}

/// Of plain text.
const COLUMNS: u16 = 100;

/// A form of the view's own.
fn raw(kind: &'static str, text: String) -> Result<Shown> {
    Ok(Shown::Raw(Reply::new(200, kind, text)))
}

/// Whether a form of the view's own is wanted: that of the whole page.
fn is_form(asked: &Asked, form: &str) -> bool {
    asked.value("form") == Some(form) && asked.value("table").is_none() && asked.value("figure").is_none()
}

/// What a stranger, a plan or a record says, on one line and without what a reader would obey.
fn plain(text: &str) -> String {
    in_line(text, 4000).into_owned()
}

/// A field of a form, with what is in it.
fn field(label: &str, name: &str, value: Option<&str>, hint: &str) -> Markup {
    html! { label { (label) input name=(name) value=(plain(value.unwrap_or_default())) placeholder=(hint) autocomplete="off"; } }
}

/// A choice among words, the first of which is for none.
fn choice<'a>(label: &str, name: &str, now: Option<&str>, all: impl IntoIterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                @for (value, words) in all {
                    option value=(value) selected[now.unwrap_or_default() == value] { (words) }
                }
            }
        }
    }
}
