//! JUnit XML, as GitLab, Jenkins and others read it: the schema of Jenkins' JUnit plugin, and figures as properties.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::{Case, Cases, Outcome};

type Xml = Writer<Vec<u8>>;

impl Cases {
    /// As JUnit XML.
    pub(crate) fn junit(&self) -> String {
        let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
        // A Vec takes whatever is written to it.
        whole(&mut xml, self).expect("memory can be written to");
        let mut text = String::from_utf8(xml.into_inner()).expect("what was written is UTF-8");
        text.push('\n');
        text
    }
}

fn whole(xml: &mut Xml, cases: &Cases) -> std::io::Result<()> {
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all: Vec<&Case> = cases.cases.iter().collect();
    let attributes = counted(&cases.title, &all);
    element(xml, "testsuites", &attributes, |xml| {
        for (name, cases) in cases.suites() {
            element(xml, "testsuite", &counted(name, &cases), |xml| cases.iter().try_for_each(|case| one(xml, case)))?;
        }
        Ok(())
    })
}

/// The attributes of a suite, and of all of them.
fn counted(name: &str, cases: &[&Case]) -> Vec<(&'static str, String)> {
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count().to_string();
    let counts = [
        ("name", name.to_owned()),
        ("tests", cases.len().to_string()),
        ("failures", count(Outcome::Failed)),
        ("errors", count(Outcome::Error)),
        ("skipped", count(Outcome::Skipped)),
    ];
    counts.into_iter().chain(time(cases)).collect()
}

/// How long they took, seconds, where any says so: the attribute may be left out.
fn time(cases: &[&Case]) -> Option<(&'static str, String)> {
    let known = cases.iter().filter_map(|case| case.seconds).reduce(|sum, more| sum + more)?;
    Some(("time", format!("{known:.3}")))
}

fn one(xml: &mut Xml, case: &Case) -> std::io::Result<()> {
    // Jenkins takes what stands before the last point for a package.
    let class = format!("linerate.{}", case.suite.replace('.', "_"));
    let names = [("classname", class), ("name", case.name.clone())];
    let attributes: Vec<_> = names.into_iter().chain(time(&[case])).collect();
    element(xml, "testcase", &attributes, |xml| {
        if let Some(measured) = case.measurement {
            element(xml, "properties", &[], |xml| {
                for (name, value) in [("measurement", measured.number()), ("unit", measured.unit.to_owned())] {
                    empty(xml, "property", &[("name", name.to_owned()), ("value", value)])?;
                }
                Ok(())
            })?;
        }
        let message = [("message", case.sentence.clone())];
        let typed = |kind: &str| [("message", case.sentence.clone()), ("type", kind.to_owned())];
        match case.outcome {
            // GitLab shows the text, Jenkins the message.
            Outcome::Failed => element(xml, "failure", &typed("judgement"), |xml| text(xml, &case.sentence)),
            Outcome::Error => element(xml, "error", &typed("not-measured"), |xml| text(xml, &case.sentence)),
            Outcome::Skipped => empty(xml, "skipped", &message),
            Outcome::Passed => element(xml, "system-out", &[], |xml| text(xml, &case.sentence)),
        }
    })
}

fn element(
    xml: &mut Xml,
    name: &str,
    attributes: &[(&str, String)],
    content: impl FnOnce(&mut Xml) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let attributes = attributes.iter().map(|(name, value)| (*name, value.as_str()));
    xml.create_element(name).with_attributes(attributes).write_inner_content(content)?;
    Ok(())
}

fn empty(xml: &mut Xml, name: &str, attributes: &[(&str, String)]) -> std::io::Result<()> {
    let attributes = attributes.iter().map(|(name, value)| (*name, value.as_str()));
    xml.create_element(name).with_attributes(attributes).write_empty()?;
    Ok(())
}

fn text(xml: &mut Xml, text: &str) -> std::io::Result<()> {
    xml.write_event(Event::Text(BytesText::new(text)))
}
