//! Holds tables of the documentation against those of the program, or writes them.
//! A table is found by its first line.

/// Set, the tests write the tables instead of comparing them.
const UPDATE: &str = "LINERATE_UPDATE_DOCS";

/// The table of the page that begins with `head` must be this one.
#[track_caller]
pub fn check(page: &str, head: &str, want: &str) {
    check_until(page, head, "\n\n", want);
}

/// The line of the page that begins with `head` must be this one.
#[track_caller]
pub fn check_line(page: &str, head: &str, want: &str) {
    check_until(page, head, "\n", want);
}

#[track_caller]
fn check_until(page: &str, head: &str, end: &str, want: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(&format!("\n{head}")).unwrap_or_else(|| panic!("{page} has no '{head}'")) + 1;
    let len = text[start..].find(end).map_or(text.len() - start, |end| end + 1);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, format!("{}{want}{}", &text[..start], &text[start + len..])).unwrap();
    } else {
        assert_eq!(
            &text[start..start + len],
            want,
            "{UPDATE}=1 cargo test -p linerate-machine -p linerate-trial writes {page} anew"
        );
    }
}
