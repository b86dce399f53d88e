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
use linerate_results::store::StoreError;
use maud::{Markup, html};

use super::Lab;
use super::page::{Page, page};
use super::reply::{Reply, kind};
use super::request::WebRequest;
use super::work_slots::Cost;
use crate::commands::selection;
use crate::render::answer::Answer;
use crate::render::answer_parts::Part;

type Handler = fn(&Lab, &WebRequest) -> Result<ViewReply>;
/// A path, what its answer takes, and who makes it.
type Row = (&'static [&'static str], fn(&WebRequest) -> Cost, Handler);

fn quick(_: &WebRequest) -> Cost {
    Cost::Quick
}

fn heavy(_: &WebRequest) -> Cost {
    Cost::Heavy
}

fn reach(_: &WebRequest) -> Cost {
    Cost::Reach
}

/// Whole records, where a form is asked for.
fn by_form(asked: &WebRequest) -> Cost {
    if asked.value("form").is_some() { Cost::Heavy } else { Cost::Quick }
}

/// Machines, where they are asked.
fn by_reach(asked: &WebRequest) -> Cost {
    if asked.value("reach").is_some() { Cost::Reach } else { Cost::Quick }
}

/// What can be asked for; `*` is any part of a path. GET changes nothing.
const LOOKING: &[Row] = &[
    (&[], quick, overview::overview),
    (&["records"], by_form, records::list),
    (&["record", "*"], quick, records::one),
    (&["record", "*", "explain"], quick, records::explained),
    (&["campaigns"], quick, campaigns::list),
    (&["campaign", "*"], heavy, campaigns::one),
    (&["compare"], heavy, judging::compare),
    (&["history"], heavy, judging::history),
    (&["report"], heavy, judging::report),
    (&["runs"], quick, running::list),
    (&["run", "*"], quick, running::one),
    (&["run", "*", "live"], quick, running::live),
    (&["plans"], quick, plans::list),
    (&["plan", "*"], quick, plans::one),
    (&["plan", "*", "matrix"], heavy, plans::matrix),
    (&["metrics"], quick, metrics::metrics),
    (&["machines"], by_reach, machines::list),
    (&["machine", "*"], reach, machines::one),
    (&["machine", "*", "*"], reach, machines::part),
    (&["machine", "*", "counters", "live"], reach, machines::live),
    #[cfg(feature = "nats")]
    (&["team"], quick, team::overview),
    #[cfg(feature = "nats")]
    (&["team", "live"], quick, team::overview_live),
    #[cfg(feature = "nats")]
    (&["jobs"], quick, team::jobs),
    #[cfg(feature = "nats")]
    (&["job", "*"], quick, team::job),
    #[cfg(feature = "nats")]
    (&["job", "*", "live"], quick, team::job_live),
];

/// What can be done.
const DOING: &[Row] = &[
    (&["plans", "try"], heavy, plans::tried),
    (&["runs"], heavy, actions::start),
    (&["run", "*", "stop"], quick, actions::stop),
    (&["campaign", "*", "resume"], heavy, actions::resume),
    (&["machine", "*", "set"], reach, actions::set),
    (&["machine", "*", "restore"], reach, actions::restore),
    #[cfg(feature = "nats")]
    (&["job", "*", "cancel"], reach, team::cancel),
];

/// What a view makes.
pub(super) enum ViewReply {
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

    fn shown(self) -> Result<ViewReply> {
        Ok(ViewReply::Page(self))
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

/// Whose fault it is: 400 where what was asked cannot be, 500 where the store cannot be read.
fn status_of(error: &anyhow::Error) -> u16 {
    use StoreError::{Ambiguous, NoRecords, NothingCalled, TooFarBack, Unknown};
    match (error.downcast_ref::<Refused>(), error.downcast_ref::<StoreError>()) {
        (Some(refused), _) => refused.status,
        (_, Some(Ambiguous { .. } | NoRecords(_) | NothingCalled(_) | TooFarBack { .. } | Unknown { .. }) | None) => {
            400
        }
        (_, Some(_)) => 500,
    }
}

/// A line for each record that cannot be read: the others are shown.
fn left_out(unreadable: &[StoreError]) -> Markup {
    html! { @for why in unreadable { p class="refused" { "Left out: " (plain(&why.to_string())) } } }
}

/// The same of a form that has no place for a line: how many, in its head.
fn without(shown: Result<ViewReply>, unreadable: &[StoreError]) -> Result<ViewReply> {
    match shown? {
        ViewReply::Raw(reply) if !unreadable.is_empty() => {
            Ok(ViewReply::Raw(reply.with("linerate-left-out", unreadable.len().to_string())))
        }
        shown => Ok(shown),
    }
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
    Err(refused(403, format!("{why}; start linerate web with {flag} to allow it")))
}

/// Answers a request.
pub(super) fn answer(lab: &Lab, asked: &WebRequest) -> Reply {
    let whole = row(asked).and_then(|row| Ok((row, whole_identifier(lab, asked)?)));
    let shown = whole.and_then(|((.., handler), whole)| match whole {
        Some(address) => Ok(ViewReply::Raw(Reply::see(&address))),
        None => handler(lab, asked),
    });
    let view = match shown {
        Ok(ViewReply::Raw(reply)) => return reply,
        Ok(ViewReply::Page(view)) => view,
        Err(error) => {
            let status = status_of(&error);
            if asked.value("form").is_some() {
                return Reply::said(status, &plain(&format!("{error:#}")));
            }
            let title = if status == 404 { "Not found" } else { "Not done" };
            View::new(title, Answer::default()).above(refusal(&error)).status(status)
        }
    };
    in_form(lab, asked, &view)
}

/// The address with the whole identifier, where it has other words that commands take: `last`, or the beginning of one, as lists
/// show it. Of several records it is the newest.
fn whole_identifier(lab: &Lab, asked: &WebRequest) -> Result<Option<String>> {
    let is_whole =
        |word: &str| word.len() == linerate_results::id::LEN && word.bytes().all(|b| b.is_ascii_alphanumeric());
    let found = match asked.path()[..] {
        _ if asked.is_post => return Ok(None),
        ["record", word, ..] if !is_whole(word) => selection::identifiers(&lab.store()?, word).map(|mut all| all.pop()),
        ["campaign", word, ..] if !is_whole(word) => selection::named(&lab.store()?, word).map(|named| named.campaign),
        _ => return Ok(None),
    };
    use StoreError::{NoRecords, NothingCalled, TooFarBack};
    let found = found.map_err(|error| match error.downcast_ref() {
        Some(NoRecords(_) | NothingCalled(_) | TooFarBack { .. }) => refused(404, error.to_string()),
        _ => error,
    });
    Ok(found?.map(|id| asked.address_of(&id)))
}

/// What the answer to a request takes.
pub(super) fn cost(asked: &WebRequest) -> Cost {
    row(asked).map_or(Cost::Quick, |(_, cost, _)| cost(asked))
}

fn row(asked: &WebRequest) -> Result<&'static Row> {
    let path = asked.path();
    let find = |all: &'static [Row]| {
        let is = |pattern: &[&str]| {
            pattern.len() == path.len() && pattern.iter().zip(&path).all(|(one, part)| *one == "*" || one == part)
        };
        all.iter().find(|(pattern, ..)| is(pattern))
    };
    match (find(LOOKING), find(DOING), asked.is_post) {
        (_, Some(row), true) | (Some(row), _, false) => Ok(row),
        (None, None, _) => Err(refused(404, "There is no such page; the links above lead to those that there are.")),
        _ => Err(refused(405, "This address is for the other of GET and POST.")),
    }
}

/// In the form that is asked for.
fn in_form(lab: &Lab, asked: &WebRequest, view: &View) -> Reply {
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
        (Some("text"), None) => Some((kind::TEXT, view.answer.whole_text(COLUMNS))),
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
fn raw(kind: &'static str, text: String) -> Result<ViewReply> {
    Ok(ViewReply::Raw(Reply::new(200, kind, text)))
}

/// Whether a form of the view's own is wanted: that of the whole page.
fn is_form(asked: &WebRequest, form: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_waits_for_its_turn() {
        for (path, query, wanted) in [
            ("/", "", Cost::Quick),
            ("/records", "limit=1000", Cost::Quick),
            ("/records", "form=json&limit=1000", Cost::Heavy),
            ("/record/x", "form=json", Cost::Quick),
            ("/plan/tcp/matrix", "repeat=100000", Cost::Heavy),
            ("/report", "records=last", Cost::Heavy),
            ("/machines", "", Cost::Quick),
            ("/machines", "reach=yes", Cost::Reach),
            ("/machine/local/registers", "", Cost::Reach),
            ("/run/1/live", "", Cost::Quick),
            ("/nowhere", "", Cost::Quick),
        ] {
            assert_eq!(cost(&WebRequest::new(path, query).unwrap()), wanted, "{path}?{query}");
        }
        for (path, wanted) in
            [("/runs", Cost::Heavy), ("/machine/local/set", Cost::Reach), ("/run/1/stop", Cost::Quick)]
        {
            assert_eq!(cost(&WebRequest::new(path, "").unwrap().post(b"")), wanted, "{path}");
        }
    }
}
