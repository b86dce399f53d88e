//! A menu, its items, and a question: what there is to choose, not how it is drawn.
//! Knows nothing of what an item does.

use linerate_machine::text::number;

/// A menu: what is shown, and what choosing an item means, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu<A> {
    /// What is shown.
    pub shown: MenuView,
    /// What each item means.
    pub actions: Vec<A>,
}

/// What is shown of a menu. Items are numbered from 1; 0 is the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuView {
    /// What it is about.
    pub title: String,
    /// What is to be known before anything is chosen, a sentence each.
    pub notes: Vec<String>,
    /// What can be chosen.
    pub items: Vec<Item>,
    /// What the way out is called.
    pub way_out: &'static str,
}

/// An item of a menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is called.
    pub label: String,
    /// Its present value; of a test, what it was asked for last.
    pub value: Option<String>,
    /// What it does, in a sentence, for who asks.
    pub help: String,
}

impl<A> Menu<A> {
    /// A menu without items.
    pub fn new(title: impl Into<String>, way_out: &'static str) -> Menu<A> {
        Menu { shown: MenuView::new(title.into(), way_out), actions: Vec::new() }
    }

    /// With one more item.
    pub fn item(&mut self, label: impl Into<String>, value: Option<String>, help: impl Into<String>, action: A) {
        self.shown.items.push(Item { label: label.into(), value, help: help.into() });
        self.actions.push(action);
    }

    /// With one more note.
    pub fn note(&mut self, sentence: impl Into<String>) {
        self.shown.notes.push(sentence.into());
    }
}

impl MenuView {
    /// A menu without items.
    pub fn new(title: String, way_out: &'static str) -> MenuView {
        MenuView { title, notes: Vec::new(), items: Vec::new(), way_out }
    }

    /// With one more item.
    pub fn item(&mut self, label: &str, value: Option<String>, help: &str) {
        self.items.push(Item { label: label.to_owned(), value, help: help.to_owned() });
    }

    /// What a line that somebody typed chooses.
    pub fn chosen(&self, line: &str) -> Choice {
        match line.trim() {
            "" => Choice::Again,
            word if ["0", "q", "quit", "exit"].contains(&word) => Choice::Out,
            word if ["?", "h", "help"].contains(&word) => Choice::Help,
            word => match number::<u32>(word) {
                Some(number @ 1..) if number as usize <= self.items.len() => Choice::Item(number as usize - 1),
                _ => Choice::Unknown,
            },
        }
    }
}

/// What a line chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// An item, from 0.
    Item(usize),
    /// The way out.
    Out,
    /// What the items do.
    Help,
    /// The menu once more.
    Again,
    /// Nothing that is there.
    Unknown,
}

/// A question whose answer is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What is asked.
    pub prompt: &'a str,
    /// What an empty answer means: the last value.
    pub last: &'a str,
    /// What an answer looks like.
    pub allowed: &'a str,
}

impl<'a> Question<'a> {
    /// What a line that somebody typed answers.
    pub fn answered(&self, line: &'a str) -> Answer<'a> {
        match line.trim() {
            "" => Answer::Is(self.last),
            "." => Answer::Leave,
            "?" => Answer::Help,
            text => Answer::Is(text),
        }
    }
}

/// What a line answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// This.
    Is(&'a str),
    /// Nothing: the question is given up.
    Leave,
    /// What could be answered?
    Help,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_chooses_by_number() {
        let mut menu = Menu::new("a", "Exit");
        menu.item("first", None, "", 'a');
        menu.item("second", None, "", 'b');
        let action = |line: &str| match menu.shown.chosen(line) {
            Choice::Item(at) => Some(menu.actions[at]),
            _ => None,
        };
        assert_eq!((action("1"), action(" 2 \r"), action("3"), action("-1")), (Some('a'), Some('b'), None, None));
        assert_eq!((menu.shown.chosen("0"), menu.shown.chosen("q")), (Choice::Out, Choice::Out));
        assert_eq!(action("02"), Some('b'));
        assert_eq!((menu.shown.chosen(""), menu.shown.chosen("?")), (Choice::Again, Choice::Help));
        assert_eq!(menu.shown.chosen("99999999999999999999999"), Choice::Unknown);
    }

    #[test]
    fn an_empty_answer_is_the_last_one() {
        let question = Question { prompt: "Rate", last: "100M", allowed: "" };
        assert_eq!(question.answered("\r"), Answer::Is("100M"));
        assert_eq!(question.answered(" 1G "), Answer::Is("1G"));
        assert_eq!((question.answered("."), question.answered("?")), (Answer::Leave, Answer::Help));
    }
}
