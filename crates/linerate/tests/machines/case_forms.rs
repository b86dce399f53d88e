//! Strict readers of the forms that CI reads: what they take is valid, and everything else fails the test.
//! Knows no writer; unit tests of `render/cases` use it too.

/// A case as a form has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub suite: String,
    pub name: String,
    /// `passed`, `failed`, `error` or `skipped`.
    pub outcome: &'static str,
    /// Why; a form may have none.
    pub sentence: String,
    /// The number and its unit, as they are written.
    pub measurement: Option<(String, String)>,
}

/// JUnit XML by the schema of Jenkins' plugin, with figures as properties: elements, attributes and their order; and the
/// counts agree with the cases.
#[track_caller]
pub fn junit(text: &str) -> Vec<Read> {
    let xml = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    let root = xml.root_element();
    let mut cases = Vec::new();
    check_attributes(root, "testsuites", &["name", "tests", "failures", "errors", "skipped"]);
    for suite in elements(root) {
        check_attributes(suite, "testsuite", &["name", "tests", "failures", "errors", "skipped"]);
        let before = cases.len();
        cases.extend(elements(suite).map(|case| testcase(case, suite.attribute("name").unwrap())));
        check_counts(suite, &cases[before..]);
    }
    check_counts(root, &cases);
    cases
}

fn elements<'a>(of: roxmltree::Node<'a, 'a>) -> impl Iterator<Item = roxmltree::Node<'a, 'a>> {
    let is_blank = |node: &roxmltree::Node| node.is_text() && node.text().unwrap().trim().is_empty();
    of.children().filter(move |node| !is_blank(node)).inspect(|node| assert!(node.is_element(), "{node:?}"))
}

#[track_caller]
fn check_attributes(node: roxmltree::Node, name: &str, wanted: &[&str]) {
    assert_eq!(node.tag_name().name(), name);
    // Only the time may be absent, where none is known.
    let has = node.attributes().map(|attribute| attribute.name()).filter(|name| *name != "time");
    assert_eq!(has.collect::<Vec<_>>(), wanted, "{name}");
    let is_decimal = |time: &str| time.chars().all(|c| c.is_ascii_digit() || c == '.') && time.parse::<f64>().is_ok();
    assert!(node.attribute("time").is_none_or(is_decimal), "{node:?}");
}

#[track_caller]
fn check_counts(node: roxmltree::Node, cases: &[Read]) {
    let count = |outcome: &str| cases.iter().filter(|case| case.outcome == outcome).count();
    let counts = [cases.len(), count("failed"), count("error"), count("skipped")];
    let told: [usize; 4] =
        ["tests", "failures", "errors", "skipped"].map(|name| node.attribute(name).unwrap().parse().unwrap());
    assert_eq!(told, counts, "{node:?}");
}

fn testcase(case: roxmltree::Node<'_, '_>, suite: &str) -> Read {
    check_attributes(case, "testcase", &["classname", "name"]);
    let class = case.attribute("classname").unwrap().strip_prefix("linerate.").expect("a package");
    assert_eq!(class, suite.replace('.', "_"));
    let mut parts: Vec<roxmltree::Node> = case.children().filter(roxmltree::Node::is_element).collect();
    let measurement = parts.first().filter(|first| first.tag_name().name() == "properties").map(|properties| {
        let values = ["measurement", "unit"].map(|name| {
            let is_it = |one: &roxmltree::Node| one.attribute("name") == Some(name);
            let one = properties.children().find(is_it).unwrap();
            check_attributes(one, "property", &["name", "value"]);
            one.attribute("value").unwrap().to_owned()
        });
        values.into()
    });
    if measurement.is_some() {
        parts.remove(0);
    }
    let [told] = parts[..] else { panic!("one outcome: {case:?}") };
    let message = told.attribute("message").unwrap_or_default().to_owned();
    let (outcome, wanted): (_, &[&str]) = match told.tag_name().name() {
        "failure" => ("failed", &["message", "type"]),
        "error" => ("error", &["message", "type"]),
        "skipped" => ("skipped", &["message"]),
        "system-out" => ("passed", &[]),
        other => panic!("{other}"),
    };
    check_attributes(told, told.tag_name().name(), wanted);
    let text = told.text().unwrap_or_default().to_owned();
    if matches!(outcome, "failed" | "error") {
        assert_eq!(text, message);
    }
    let sentence = if outcome == "skipped" { message } else { text };
    let name = case.attribute("name").unwrap().to_owned();
    Read { suite: suite.to_owned(), name, outcome, sentence, measurement }
}

/// KTAP version 1 (Documentation/dev-tools/ktap.rst): versions, plans, numbers, nesting by two blanks, and the results of the
/// outer tests follow from those of the inner ones.
#[track_caller]
pub fn ktap(text: &str) -> Vec<Read> {
    assert!(text.ends_with('\n') && text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    let mut lines = text.lines().peekable();
    let mut cases = Vec::new();
    let suites = begin(&mut lines, "");
    for number in 1..=suites {
        assert_eq!(lines.next(), Some("  KTAP version 1"));
        let suite = lines.next().and_then(|line| line.strip_prefix("  # Subtest: ")).expect("a subtest").to_owned();
        let tests = plan(lines.next().unwrap(), "  ");
        let before = cases.len();
        for number in 1..=tests {
            let mut read = Read {
                suite: name(&suite),
                name: String::new(),
                outcome: "passed",
                sentence: String::new(),
                measurement: None,
            };
            while let Some(diagnostic) = lines.next_if(|line| line.starts_with("  #")) {
                let (kind, rest) = diagnostic["  # ".len()..].split_once(": ").unwrap();
                match kind {
                    "told" => read.sentence = name(rest),
                    "measured" => read.measurement = rest.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())),
                    _ => panic!("{diagnostic}"),
                }
            }
            let line = lines.next().and_then(|line| line.strip_prefix("  ")).expect("a result");
            let (is_ok, description, directive) = result(line, number);
            read.name = name(description);
            let has_reason = |kind| directive.and_then(|directive: &str| directive.strip_prefix(kind));
            match (is_ok, has_reason("SKIP "), has_reason("ERROR ")) {
                (true, Some(why), _) => (read.outcome, read.sentence) = ("skipped", name(why)),
                (false, _, Some(why)) => (read.outcome, read.sentence) = ("error", name(why)),
                (true, ..) => assert_eq!(directive, None),
                (false, ..) => {
                    assert_eq!(directive, None);
                    read.outcome = "failed";
                }
            }
            cases.push(read);
        }
        let (is_ok, description, directive) = result(lines.next().unwrap(), number);
        assert_eq!(description, suite);
        let of_it = &cases[before..];
        assert_eq!(is_ok, of_it.iter().all(|case| matches!(case.outcome, "passed" | "skipped")), "{text}");
        let is_skipped = directive.is_some_and(|directive| directive.starts_with("SKIP "));
        assert_eq!(is_skipped, of_it.iter().all(|case| case.outcome == "skipped"), "{text}");
    }
    assert_eq!(lines.next(), None);
    cases
}

fn begin<'a>(lines: &mut impl Iterator<Item = &'a str>, indent: &str) -> usize {
    assert_eq!(lines.next(), Some(format!("{indent}KTAP version 1")).as_deref());
    plan(lines.next().unwrap(), indent)
}

fn plan(line: &str, indent: &str) -> usize {
    line.strip_prefix(indent).and_then(|line| line.strip_prefix("1..")).expect("a plan").parse().unwrap()
}

/// `ok 1 NAME`, `not ok 2 NAME`, with ` # DIRECTIVE REASON` behind it. The name and the reason have no `#`.
fn result(line: &str, number: usize) -> (bool, &str, Option<&str>) {
    let (is_ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ").unwrap_or_else(|| panic!("no result: {line}"))),
    };
    let rest = rest.strip_prefix(&format!("{number} ")).unwrap_or_else(|| panic!("not number {number}: {line}"));
    let (description, directive) = rest.split_once(" # ").map_or((rest, None), |(name, why)| (name, Some(why)));
    assert!(!description.contains('#') && !directive.is_some_and(|why| why.contains('#')), "{line}");
    assert!(!description.trim().is_empty(), "{line}");
    (is_ok, description, directive)
}

fn name(description: &str) -> String {
    description.replace("\\x23", "#")
}

/// A signal of LAVA's.
pub struct Signal {
    pub id: String,
    pub result: String,
    pub measurement: Option<(String, String)>,
}

/// LAVA's signals as its dispatcher reads them: what matches `<LAVA_SIGNAL_(\S+) ([^>]+)>`, cut at blanks, each part with one
/// `=`.
#[track_caller]
pub fn lava(console: &str) -> Vec<Signal> {
    let mut read: Vec<Signal> = Vec::new();
    for (at, _) in console.match_indices("<LAVA_") {
        let rest = console[at..].strip_prefix("<LAVA_SIGNAL_TESTCASE ").expect("a signal of a test case");
        let (parameters, _) = rest.split_once('>').expect("an end");
        let parameters: Vec<(&str, &str)> = parameters
            .split(' ')
            .map(|one| one.split_once('=').filter(|(_, value)| !value.contains('=') && !value.is_empty()))
            .map(|one| one.unwrap_or_else(|| panic!("malformed: {parameters}")))
            .collect();
        let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
        let whole = ["TEST_CASE_ID", "RESULT", "MEASUREMENT", "UNITS"];
        assert!(names == whole || names == whole[..2], "{names:?}");
        let value = |at: usize| parameters[at].1.to_owned();
        assert!(["pass", "fail", "skip"].contains(&&*value(1)));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(value(0).chars().all(is_allowed) && value(0).len() <= 160, "{}", value(0));
        assert!(!read.iter().any(|one| one.id == value(0)), "{} twice", value(0));
        if parameters.len() == 4 {
            // DecimalField(max_digits=20, decimal_places=10)
            let number = value(2);
            let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
            let whole = whole.trim_start_matches('-');
            assert!([whole, part].iter().all(|part| part.chars().all(|c| c.is_ascii_digit()) && part.len() <= 10));
            assert!(value(3).is_ascii());
        }
        let measurement = (parameters.len() == 4).then(|| (value(2), value(3)));
        read.push(Signal { id: value(0), result: value(1), measurement });
    }
    read
}

/// A Markdown summary: its answer, and the rows of its table as cells.
#[track_caller]
pub fn summary(text: &str) -> (String, Vec<Vec<String>>) {
    assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
    let mut lines = text.lines();
    let answer = lines.next().and_then(|line| line.strip_prefix("**")?.strip_suffix("**")).expect("an answer first");
    assert_eq!(lines.next(), Some(""));
    let mut table: Vec<Vec<String>> = lines.by_ref().take_while(|line| !line.is_empty()).map(cells).collect();
    assert_eq!(table.remove(0), ["outcome", "case", "measured", "why"]);
    assert_eq!(table.remove(0), ["---", "---", "---:", "---"]);
    assert!(table.iter().all(|row| row.len() == 4), "{table:#?}");
    let after: Vec<&str> = lines.collect();
    assert!(after.is_empty() || matches!(after[..], [one] if one.starts_with("Left out: ")), "{after:?}");
    (answer.to_owned(), table)
}

/// The cells of a row (GitHub Flavored Markdown, 4.10).
fn cells(line: &str) -> Vec<String> {
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or_else(|| panic!("{line}"));
    let (mut cells, mut cell, mut is_escaped) = (Vec::new(), String::new(), false);
    for c in inner.chars() {
        match c {
            '|' if !is_escaped => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells.push(cell.trim().to_owned());
    cells
}
