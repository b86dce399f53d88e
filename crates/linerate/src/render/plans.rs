//! Plans as text for people: the table of `linerate plans`, and one plan as `linerate plans NAME` shows it.
//! Knows no terminal: how wide a page is, is an argument.

use linerate_plan::{ExpectedTime, Plan, PlanError};

use crate::render;
#[cfg(feature = "web")]
use crate::render::answer::Answer;
#[cfg(feature = "web")]
use crate::render::forms::Piece;
#[cfg(feature = "web")]
use crate::render::table_model::{Cell, Table};

/// A row for each plan: what it measures, how many trials it has and how long they take.
pub(crate) fn plans_table(plans: &[Plan], width: Option<u16>) -> Result<String, PlanError> {
    Ok(render::words(HEADINGS, rows(plans)?, width))
}

/// The same for a browser, each plan with a link to its page.
#[cfg(feature = "web")]
pub(crate) fn answer(plans: &[Plan]) -> Result<Answer, PlanError> {
    let rows = rows(plans)?.into_iter().zip(plans).map(|([name, about, count, time], plan)| {
        let link = format!("/plan/{}", plan.name);
        vec![Cell::text(name).linked(link), Cell::long(about), Cell::numbers(count), Cell::long(time)]
    });
    Ok(Answer::of(vec![Piece::Table(Table::new(HEADINGS, rows))]))
}

const HEADINGS: [&str; 4] = ["plan", "what it measures", "trials", "time"];

fn rows(plans: &[Plan]) -> Result<Vec<[String; 4]>, PlanError> {
    let row = |plan: &Plan| {
        let trials = plan.trials(&[], None)?;
        // A search asks for trials until it knows.
        let (count, time) = match plan.search {
            Some(_) => ("-".to_owned(), "as its search takes".to_owned()),
            None => (trials.len().to_string(), ExpectedTime::of(&trials).with_beside(trials.len()).to_string()),
        };
        Ok([plan.name.clone(), plan.about.clone(), count, time])
    };
    plans.iter().map(row).collect()
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
    use linerate_plan::{builtins, named};

    #[test]
    fn the_table_of_plans() {
        insta::assert_snapshot!(plans_table(&builtins(), Some(100)).unwrap());
    }

    #[test]
    fn a_plan_shown_is_the_plan() {
        let plan = named("canned").unwrap();
        assert_eq!(Plan::parse(&plan_text(&plan), "shown.toml", "shown").unwrap().parts, plan.parts);
    }
}
