//! Holds docs/findings.md against the rules.
//! Knows which part of the page the rules write, not what people add around it.

use linerate_machine::setting;
use linerate_trial::options;

use super::RULES;
use crate::page::check;

#[test]
fn the_page_says_what_the_rules_say() {
    check("findings.md", "<!-- the rules begin -->\n", "<!-- the rules end -->\n", &rules());
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
    for rule in RULES {
        for name in rule.suggests {
            assert!(setting::find(name).is_ok() || options::find(name).is_ok(), "{}: {name}", rule.name);
        }
    }
}
