//! The rules of `cargo xtask tidy` as a test, so that nobody can forget them.
//! Knows no rule.

#[test]
fn no_file_breaks_a_rule() {
    let findings = xtask::tidy::findings().unwrap();
    let broken: Vec<String> = findings.iter().filter(|finding| !finding.warning).map(ToString::to_string).collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
