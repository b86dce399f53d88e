//! Patterns of names: of counters, kernel functions, features and versions.

/// Whether a name is as a pattern says, in which `*` stands for any text and `#` for a number.
pub fn fits(pattern: &str, name: &str) -> bool {
    matches(pattern.as_bytes(), name.as_bytes(), Some(b'#'))
}

/// Whether a text is as a pattern says, in which `*` stands for any text, and `#` for itself.
pub fn fits_stars(pattern: &str, text: &str) -> bool {
    matches(pattern.as_bytes(), text.as_bytes(), None)
}

/// Only the last star is ever tried again: an earlier one that took more could leave no more to those behind it.
fn matches(pattern: &[u8], text: &[u8], number: Option<u8>) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                Some((p + 1, t))
            }
            Some(wanted) if Some(*wanted) == number => {
                let digits = text[t..].iter().take_while(|octet| octet.is_ascii_digit()).count();
                (digits > 0).then_some((p + 1, t + digits))
            }
            Some(wanted) => (text.get(t) == Some(wanted)).then_some((p + 1, t + 1)),
            None if t == text.len() => return true,
            None => None,
        };
        (p, t) = match (step, star) {
            (Some(next), _) => next,
            (None, Some((behind, taken))) if taken < text.len() => {
                star = Some((behind, taken + 1));
                (behind, taken + 1)
            }
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, want) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acx", false),
            ("*", "", true),
            ("", "6", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "axxc", false),
            ("é*", "éé", true),
            ("ip_*", "zip_rcv", false),
            ("prio_*queue", "prio_dequeue", true),
            ("6.6*6.6", "6.6", false),
            ("6.*.1*imx", "6.6.1-imx", true),
            ("driver rx#_drops", "driver rx12_drops", true),
            ("driver rx#_drops", "driver rx_drops", false),
            ("driver rx#_drops", "driver rx0_xdp_drops", false),
            ("*#a", "12b3a", true),
        ] {
            assert_eq!(fits(pattern, name), want, "{pattern} {name}");
        }
        assert!(fits_stars("#12 *", "#12 SMP") && !fits_stars("#12 *", "712 SMP"));
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!fits(&"*a".repeat(200), &"a".repeat(199)));
        assert!(!fits(&format!("{}b", "*a".repeat(200)), &"a".repeat(2000)));
    }

    /// What each part of a pattern stands for, tried in every way.
    fn by_trying(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| by_trying(rest, &text[at..])),
            Some((b'#', rest)) => {
                let digits = text.iter().take_while(|octet| octet.is_ascii_digit()).count();
                digits > 0 && by_trying(rest, &text[digits..])
            }
            Some((wanted, rest)) => {
                text.split_first().is_some_and(|(first, left)| first == wanted && by_trying(rest, left))
            }
        }
    }

    proptest! {
        #[test]
        fn as_by_trying(pattern in "[ab1*#]{0,8}", text in "[ab12]{0,10}") {
            prop_assert_eq!(fits(&pattern, &text), by_trying(pattern.as_bytes(), text.as_bytes()), "{} {}", pattern, text);
        }
    }
}
