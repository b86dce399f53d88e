//! Holds docs/findings.md against the rules.
//! Knows which part of the page the rules write, not what people add around it.

use std::path::Path;

use linerate_trial::{options, setting};

use super::RULES;

/// Set, the test writes that part of the page instead of comparing it.
const UPDATE: &str = "LINERATE_UPDATE_DOCS";
const BEGIN: &str = "<!-- the rules begin -->\n";
const END: &str = "<!-- the rules end -->\n";

#[test]
fn the_page_says_what_the_rules_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has room for the rules");
    let (there, after) = rest.split_once(END).expect("the rules end");
    let want = rules();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{want}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(there, want, "{UPDATE}=1 cargo test -p linerate-results writes them anew");
}

fn rules() -> String {
    let of_rule = |rule: &super::Rule| {
        let suggests: Vec<String> = rule.suggests.iter().map(|name| format!("`{name}`")).collect();
        let suggests = if suggests.is_empty() { "no setting helps".to_owned() } else { suggests.join(", ") };
        format!(
            "\n### {}\n\n{}\n\n- **Rests on:** {}\n- **Source:** {}\n- **Suggests:** {suggests}\n",
            rule.name, rule.says, rule.rests_on, rule.source
        )
    };
    RULES.iter().map(of_rule).chain(["\n".to_owned()]).collect()
}

#[test]
fn every_suggestion_is_a_setting_or_an_option() {
    for rule in &RULES {
        for name in rule.suggests {
            assert!(setting::find(name).is_ok() || options::find(name).is_ok(), "{}: {name}", rule.name);
        }
    }
}
