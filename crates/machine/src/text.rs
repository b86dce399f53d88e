//! What people write: numbers, yes and no, and names that are nearly right.

/// A whole number, in digits alone.
pub fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    // `+5` and the like parse in Rust and are a slip of the finger here.
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The digits of a whole number with its thousands apart.
pub fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let apart = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>().join(",");
    format!("{sign}{apart}")
}

/// Yes or no, in the words that people use.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "yes" => Some(true),
        "false" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// Whether this can name a bench, a user or a worker: letters, digits, `-` and `_`, 48 at most. So it is one word of a subject, of a
/// path and of a log.
pub fn is_plain_name(text: &str) -> bool {
    (1..=48).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c))
}

/// The text as a POSIX shell takes it for one word, whatever is in it.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The text as one word of a command that people copy: as it is, where a POSIX shell takes it for itself.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+~".contains(c);
    let is_word = !text.is_empty() && !text.starts_with('~') && text.chars().all(is_plain);
    if is_word { text.to_owned() } else { shell_quoted(text) }
}

/// The candidate that `name` was likely meant to be, if one is near enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(candidate, name), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + name.len() / 3)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substitute = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
