//! Every form of output at the usual widths: nothing is wider than asked, no word is broken.
//! Looks at lines and words, and keeps a picture of each.

use std::collections::BTreeSet;

use linerate_results::record::Record;
use linerate_results::sample;

use super::compare::SHORT;
use super::hostile_text::texts;

const WIDTHS: [u16; 3] = [80, 100, 200];

/// Each form at each width.
fn forms(record: &Record) -> Vec<(&'static str, Vec<(u16, String)>)> {
    let mut forms: Vec<(&'static str, Vec<(u16, String)>)> = Vec::new();
    for width in WIDTHS {
        // A report has a width of its own, and tests of its own.
        let forms_of_width = texts(record, Some(width)).into_iter().filter(|(form, _)| *form != "report");
        for (at, (form, text)) in forms_of_width.enumerate() {
            if width == WIDTHS[0] {
                forms.push((form, Vec::new()));
            }
            forms[at].1.push((width, text));
        }
    }
    forms
}

fn words(text: &str) -> BTreeSet<&str> {
    // A path or an identifier may be broken behind a dot or the like.
    text.split(|c: char| c.is_whitespace() || ".-_/,:=".contains(c)).collect()
}

#[track_caller]
fn check(form: &str, width: u16, text: &str, whole: &str) {
    let wide = text.lines().find(|line| line.chars().count() > usize::from(width));
    assert_eq!(wide, None, "{form} at {width}:\n{text}");
    assert!(text.is_empty() || text.ends_with('\n'), "{form} at {width} has no end:\n{text:?}");
    assert!(!text.lines().any(|line| line != line.trim_end()), "{form} at {width} has blanks at a line's end:\n{text}");
    // What is left out is said; of what is there each word is one of the whole.
    let left_out = text.split_once("Left out at this width").map_or(text, |(before, _)| before);
    let known = words(whole);
    // And of an identifier there may be a half.
    let is_part = |word: &&str| known.iter().any(|whole| whole.len() > 24 && whole.contains(*word));
    let broken = words(left_out).into_iter().filter(|word| !known.contains(word) && !is_part(word));
    let broken: Vec<&str> = broken.collect();
    assert_eq!(broken, [""; 0], "{form} at {width}:\n{text}");
}

#[test]
fn nothing_is_wider_than_asked_and_no_word_is_broken() {
    for record in [sample::full(), sample::failed(6), super::sample::sweep().remove(0), sample::rr(0, "64")] {
        let whole = texts(&record, None);
        for (form, of_widths) in forms(&record) {
            let whole = &whole.iter().find(|(name, _)| *name == form).unwrap().1;
            // Verdicts in few words are explained below.
            let whole = &if form == "compare" { format!("{whole}{}", SHORT.join(" ")) } else { whole.clone() };
            // A picture of a few columns has other bars.
            let is_drawn = form == "picture";
            of_widths.iter().for_each(|(width, text)| check(form, *width, text, if is_drawn { text } else { whole }));
        }
    }
}

#[test]
fn each_form_at_each_width() {
    for (form, of_widths) in forms(&sample::full()) {
        let told: Vec<String> = of_widths.iter().map(|(width, text)| format!("── {width} ──\n{text}")).collect();
        insta::assert_snapshot!(format!("at_each_width_{}", form.replace(' ', "_")), told.join("\n"));
    }
}

#[test]
fn tables_of_many_records_fit() {
    for records in [super::sample::sweep(), super::sample::everything(), super::sample::repeats()] {
        let whole = super::records::text(&records, None);
        for width in WIDTHS {
            check("table", width, &super::records::text(&records, Some(width)), &whole);
            let ttcp = super::ttcp::ttcp(&records, Some(width));
            check("ttcp", width, &ttcp, &super::ttcp::ttcp(&records, None));
            let picture = super::picture::picture(&records, Some(width));
            check("picture", width, &picture, &picture);
        }
    }
}
