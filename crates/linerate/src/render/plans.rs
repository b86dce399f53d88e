//! Plans as text for people: the table of `linerate plans`, and one plan as `linerate plans NAME` shows it.
//! Knows no terminal: how wide a page is, is an argument.

use linerate_plan::{ExpectedTime, Plan, PlanError};

use crate::render;

/// A row for each plan: what it measures, how many trials it has and how long their traffic takes.
pub(crate) fn plans_table(plans: &[Plan], width: Option<u16>) -> Result<String, PlanError> {
    let row = |plan: &Plan| {
        let trials = plan.trials(&[], None)?;
        // A search asks for trials until it knows.
        let (count, time) = match plan.search {
            Some(_) => ("-".to_owned(), "as its search takes".to_owned()),
            None => (trials.len().to_string(), ExpectedTime::of(&trials).to_string()),
        };
        Ok([plan.name.clone(), plan.about.clone(), count, time])
    };
    let rows: Vec<_> = plans.iter().map(row).collect::<Result<_, PlanError>>()?;
    Ok(render::words(["plan", "what it measures", "trials", "time"], rows, width))
}

/// The file itself, so that what is shown can be saved, changed and run.
pub(crate) fn plan_text(plan: &Plan) -> String {
    let mut text = plan.source.clone();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::{builtins, find};

    #[test]
    fn the_table_of_plans() {
        insta::assert_snapshot!(plans_table(&builtins(), Some(100)).unwrap());
    }

    #[test]
    fn a_plan_shown_is_the_plan() {
        let plan = find("canned").unwrap();
        assert_eq!(Plan::parse(&plan_text(&plan), "shown.toml", "shown").unwrap().parts, plan.parts);
    }
}
