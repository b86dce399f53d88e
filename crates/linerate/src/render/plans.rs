//! Plans as text for people: the table of `linerate plans`, and one plan as `linerate plans NAME` shows it.
//! Knows no terminal: how wide a page is, is an argument.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use linerate_plan::{ExpectedTime, Plan, PlanError};

/// A row for each plan: what it measures, how many trials it has and how long their traffic takes.
pub(crate) fn plans_table(plans: &[Plan], width: u16) -> Result<String, PlanError> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(["plan", "what it measures", "trials", "time"]);
    for plan in plans {
        let trials = plan.trials(&[], None)?;
        let time = ExpectedTime::of(&trials).to_string();
        table.add_row([plan.name.clone(), plan.about.clone(), trials.len().to_string(), time]);
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    Ok(lines.join("\n") + "\n")
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
        insta::assert_snapshot!(plans_table(&builtins(), 100).unwrap());
    }

    #[test]
    fn a_plan_shown_is_the_plan() {
        let plan = find("canned").unwrap();
        assert_eq!(Plan::parse(&plan_text(&plan), "shown.toml", "shown").unwrap().parts, plan.parts);
    }
}
