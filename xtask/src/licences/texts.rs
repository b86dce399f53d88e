//! Licence texts: which licence a file has, and many files of one licence as one text with everybody's notice above it.
//! Knows no crate.

use std::collections::{BTreeMap, BTreeSet};

/// What only the text of a licence says.
const MARKS: [(&str, &str); 9] = [
    ("MIT", "Permission is hereby granted, free of charge, to any person obtaining"),
    ("Apache-2.0", "Apache License Version 2.0, January 2004"),
    ("ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"),
    ("BSD-2-Clause", "Redistribution and use in source and binary forms"),
    ("BSD-3-Clause", "Redistribution and use in source and binary forms"),
    ("Zlib", "This notice may not be removed or altered from any source distribution"),
    ("Unicode-3.0", "UNICODE LICENSE V3"),
    ("CDDL-1.0", "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE"),
    ("BSL-1.0", "Boost Software License"),
];

/// Whether this is the text of that licence.
pub(super) fn is_text_of(text: &str, licence: &str) -> bool {
    let words = words(text);
    // Some files write "ISC" as "and distribute".
    let words = words.replace("modify, and distribute this software", "modify, and/or distribute this software");
    MARKS.iter().any(|(name, mark)| *name == licence && words.contains(mark))
}

/// Texts that differ in nothing but their notices, and whose they are.
#[derive(Default)]
pub(super) struct Texts {
    by_words: BTreeMap<String, Text>,
}

struct Text {
    licences: BTreeSet<String>,
    /// As the first crate has it, without its notices.
    text: String,
    /// Of each crate, the notices.
    notices: BTreeMap<String, Vec<String>>,
}

impl Texts {
    /// One more crate's file.
    pub(super) fn add(&mut self, component: &str, licences: &BTreeSet<&str>, file: &str) {
        let (notices, text) = apart(file);
        let licences = licences.iter().map(|licence| (*licence).to_owned());
        let entry = self.by_words.entry(words(&text).to_lowercase());
        let entry = entry.or_insert_with(|| Text { licences: BTreeSet::new(), text, notices: BTreeMap::new() });
        entry.licences.extend(licences);
        let of_component = entry.notices.entry(component.to_owned()).or_default();
        for notice in notices {
            // Some crates have the same text in two files.
            if !of_component.contains(&notice) {
                of_component.push(notice);
            }
        }
    }

    /// A crate that brings no file: the text that most others of this licence have, with this notice.
    pub(super) fn add_usual(&mut self, component: &str, licence: &str, notice: String) -> Result<(), String> {
        let is_of = |text: &&mut Text| text.licences.len() == 1 && text.licences.contains(licence);
        let usual = self.by_words.values_mut().filter(is_of).max_by_key(|text| text.notices.len());
        let usual =
            usual.ok_or_else(|| format!("{component} has no file of its licence, {licence}, nor has another crate"))?;
        usual.notices.entry(component.to_owned()).or_default().push(notice);
        Ok(())
    }

    /// All of them, those that most crates share first.
    pub(super) fn print(&self) -> String {
        let mut texts: Vec<&Text> = self.by_words.values().collect();
        texts
            .sort_by(|a, b| b.notices.len().cmp(&a.notices.len()).then_with(|| a.notices.keys().cmp(b.notices.keys())));
        let mut page = String::new();
        for text in texts {
            let licences: Vec<&str> = text.licences.iter().map(String::as_str).collect();
            page += &format!("{}\n{}\n\n", "=".repeat(80), licences.join(", "));
            for (component, notices) in &text.notices {
                match &notices[..] {
                    [] => page += &format!("{component}\n"),
                    [one] => page += &format!("{component}: {one}\n"),
                    many => page += &format!("{component}:\n    {}\n", many.join("\n    ")),
                }
            }
            page += &format!("\n{}\n\n", text.text.trim_end());
        }
        page
    }
}

/// The notices at the head of a file, and the rest. What a notice is, is told by its first word, and by naming somebody: a
/// licence that says how notices are written does not.
fn apart(file: &str) -> (Vec<String>, String) {
    let (mut notices, mut rest) = (Vec::new(), Vec::new());
    for line in file.lines().map(str::trim_end) {
        let words = line.trim();
        let is_notice = words.len() > "copyright".len()
            && words.get(.."copyright".len()).is_some_and(|first| first.eq_ignore_ascii_case("copyright"))
            && !words.contains(['[', '{'])
            && (words.contains(|sign: char| sign.is_ascii_digit())
                || words.to_lowercase().starts_with("copyright (c)"));
        // Behind the text itself begin others', of parts that the crate has from elsewhere.
        if is_notice && rest.iter().map(|line: &&str| line.len()).sum::<usize>() < 100 {
            notices.push(words.to_owned());
        } else if !(words.is_empty() && rest.last().is_none_or(|line: &&str| line.is_empty())) {
            rest.push(line);
        }
    }
    (notices, rest.join("\n"))
}

/// Without what editors change: line breaks, indentation.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIT: &str = "Permission is hereby granted, free of charge, to any person obtaining a\ncopy. NO WARRANTY.\n";

    #[test]
    fn texts_that_differ_in_notices_are_one() {
        let mut texts = Texts::default();
        let mit: BTreeSet<&str> = ["MIT"].into();
        texts.add("a 1.0.0", &mit, &format!("The MIT License\n\nCopyright (c) 2015 A\n\n{MIT}"));
        texts.add("b 2.0.0", &mit, &format!("  The MIT License\nCopyright 2020, B <b@b>\nCopyright 2021 C\n{MIT}"));
        texts.add("c 3.0.0", &mit, &format!("{MIT}Otherwise."));
        texts.add_usual("d 4.0.0", "MIT", "Copyright (c) D".to_owned()).unwrap();
        assert!(texts.add_usual("e", "ISC", String::new()).is_err());
        let page = texts.print();
        assert_eq!(page.matches("NO WARRANTY").count(), 2, "{page}");
        for line in [
            "a 1.0.0: Copyright (c) 2015 A\n",
            "b 2.0.0:\n    Copyright 2020, B <b@b>\n    Copyright 2021 C\n",
            "c 3.0.0\n",
            "d 4.0.0: Copyright (c) D\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }

    #[test]
    fn a_text_is_told_by_what_it_says() {
        assert!(is_text_of(MIT, "MIT") && !is_text_of(MIT, "ISC") && !is_text_of("MIT", "MIT"));
        assert!(is_text_of("   Apache License\n   Version 2.0, January 2004\n", "Apache-2.0"));
    }

    #[test]
    fn a_form_for_notices_is_none() {
        let apache =
            "Apache\n   Copyright [yyyy] [name of copyright owner]\ncopyright license to reproduce\nCopyright\n";
        assert_eq!(apart(apache), (Vec::new(), apache.trim_end().to_owned()));
    }
}
