//! What the commands need of Markdown: tables, links, commands to run, and a part that is written by a program.
//! Knows no document.

/// The rows of the first table whose header has these two columns, as (first, second) cells.
pub(crate) fn table<'a>(text: &'a str, columns: [&str; 2]) -> Option<Vec<(&'a str, &'a str)>> {
    let mut lines = text.lines();
    let places = lines.find_map(|line| {
        let cells = cells(line)?;
        let place = |column| cells.iter().position(|cell| *cell == column);
        Some((place(columns[0])?, place(columns[1])?))
    })?;
    lines.next()?; // |---|---|
    let row = |line: &'a str| {
        let cells = cells(line)?;
        Some((*cells.get(places.0)?, *cells.get(places.1)?))
    };
    Some(lines.map_while(row).collect())
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?;
    Some(line.strip_suffix('|').unwrap_or(line).split('|').map(str::trim).collect())
}

/// What stands between backticks.
pub(crate) fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Where links and pictures lead, with the number of their line; those in code blocks are not links.
pub(crate) fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    let outside = (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    outside.flat_map(|(number, line)| {
        let ends = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        // A title may follow: [text](target "title").
        ends.filter_map(move |end| Some((number, end.split_whitespace().next()?)))
    })
}

/// The contents of each shell block that stands under a line with this comment.
pub(crate) fn shell_blocks<'a>(text: &'a str, comment: &str) -> Vec<&'a str> {
    let mut blocks = Vec::new();
    for after in text.split(comment).skip(1) {
        let block = after.trim_start().strip_prefix("```sh\n").and_then(|block| Some(block.split_once("\n```")?.0));
        blocks.extend(block);
    }
    blocks
}

/// The text with `part` between `<!-- name -->` and `<!-- /name -->`; `None`: it has no such place.
pub(crate) fn with_part(text: &str, name: &str, part: &str) -> Option<String> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let (before, rest) = text.split_once(&open)?;
    let (_, after) = rest.split_once(&close)?;
    Some(format!("{before}{open}\n{}\n{close}{after}", part.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_header() {
        let text = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| crate | for | may import |\n|---|---|---|\n\
                    | `wire` | octets | – |\n| `trial` | logic | `wire` `x` |\nEnd | of | it\n";
        let rows = table(text, ["crate", "may import"]).unwrap();
        assert_eq!(rows, [("`wire`", "–"), ("`trial`", "`wire` `x`")]);
        assert_eq!(code_words(rows[1].1).collect::<Vec<_>>(), ["wire", "x"]);
        assert_eq!(code_words(rows[0].1).count(), 0);
        assert_eq!(table(text, ["crate", "other"]), None);
    }

    #[test]
    fn links_outside_of_code() {
        let text = "See [a](x.md#y) and [b](z.md \"title\").\n```\n[c](no.md)\n```\n![p](p.svg)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), [(1, "x.md#y"), (1, "z.md"), (5, "p.svg")]);
    }

    #[test]
    fn blocks_under_a_comment() {
        let text = "```sh\nno\n```\n<!-- run -->\n```sh\none\ntwo\n```\n<!-- run -->\nno block\n";
        assert_eq!(shell_blocks(text, "<!-- run -->"), ["one\ntwo"]);
    }

    #[test]
    fn a_part_is_replaced_and_nothing_else() {
        let text = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n";
        let new = with_part(text, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n");
        assert_eq!(with_part(&new, "x", "new").unwrap(), new, "again is the same");
        assert_eq!(with_part("nothing", "x", "new"), None);
    }
}
