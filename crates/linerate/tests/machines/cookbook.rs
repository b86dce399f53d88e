//! docs/cookbook.md, read as its tests run it: each block of commands, with what a comment before it says of the test.

use std::time::Duration;

use super::{Bench, Running};

/// A block of the cookbook.
pub struct Recipe {
    /// The field report that it stands under.
    pub report: u32,
    /// Shell lines, or a file.
    pub text: String,
    /// What the comment before it says: `board` it needs a real driver, `twice` the first command is run twice, `dry`
    /// nothing is measured, `file NAME` it is a file that a command names.
    pub notes: Vec<String>,
    /// What must stand in the output.
    pub shows: Vec<String>,
}

/// The blocks of this field report.
pub fn recipes(report: u32) -> Vec<Recipe> {
    let page = include_str!("../../../../docs/cookbook.md");
    let (mut at, mut recipes) = (0, Vec::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            at = title.split('.').next().and_then(|number| number.parse().ok()).expect("a report has a number");
        }
        let Some(comment) = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let (notes, shows): (Vec<&str>, Vec<&str>) = comment.split("; ").partition(|part| !part.starts_with("shows: "));
        let shows = shows.iter().flat_map(|part| part["shows: ".len()..].split(", ")).map(str::to_owned).collect();
        lines.next().filter(|fence| fence.starts_with("```")).expect("a block follows the comment");
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let notes = notes.into_iter().map(str::to_owned).collect();
        recipes.push(Recipe { report: at, text: block.join("\n") + "\n", notes, shows });
    }
    recipes.retain(|recipe| recipe.report == report);
    assert!(!recipes.is_empty(), "the cookbook has nothing of report {report}");
    recipes
}

impl Recipe {
    pub fn says(&self, note: &str) -> bool {
        self.notes.iter().any(|own| own == note)
    }

    /// Its commands; a line that ends in a backslash goes on.
    pub fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        joined.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Runs it with shorter trials, and looks for what it shows. `ends`: what `root@board`, `me@left` and `me@right` are, and
    /// which options a run has besides.
    #[track_caller]
    pub fn run(&self, bench: &Bench, ends: &Ends) {
        if let Some(name) = self.notes.iter().find_map(|note| note.strip_prefix("file ")) {
            std::fs::write(bench.folder.path(name), self.text.replace("repeat = 10", "repeat = 2")).unwrap();
            return;
        }
        let mut commands = self.commands();
        if self.says("twice") {
            commands.insert(0, commands[0].clone());
        }
        let mut said = String::new();
        for command in commands {
            let short = ends.shortened(&command, self.says("dry"));
            let mut shell = std::process::Command::new("sh");
            bench.dress(&mut shell);
            ends.dress(&mut shell);
            let program = std::path::Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap().to_owned();
            let path =
                std::env::join_paths([program, "/usr/sbin".into(), "/usr/bin".into(), "/sbin".into(), "/bin".into()]);
            shell.args(["-c", &short]).current_dir(&bench.folder.0).env("PATH", path.unwrap());
            let ran = Running::start(shell).wait(Duration::from_secs(240));
            assert_eq!(ran.status.code(), Some(0), "{command}\nas {short}\n{ran:#?}");
            said.push_str(&ran.stdout);
        }
        let words: Vec<&str> = said.split_whitespace().collect();
        for shown in &self.shows {
            let parts: Vec<&str> = shown.split_whitespace().collect();
            // The words of a heading may stand on several lines.
            assert!(parts.iter().all(|part| words.iter().any(|word| word.contains(part))), "no {shown} in\n{said}");
        }
    }
}

/// Where the commands of a recipe go.
pub struct Ends {
    pub board: String,
    /// The other end; absent where linerate finds it by itself.
    pub host: Option<String>,
    /// The machine between them, where the board is that.
    pub middle: Option<String>,
    /// How long a trial of a stream takes.
    pub duration: &'static str,
    /// A variable of the environment besides.
    pub variable: Option<(&'static str, String)>,
}

impl Ends {
    fn dress(&self, command: &mut std::process::Command) {
        command.envs(self.variable.iter().map(|(name, value)| (name, value)));
    }

    fn shortened(&self, command: &str, dry: bool) -> String {
        let command = command.split_once(" #").map_or(command, |(command, _)| command);
        let between = self.middle.as_ref().unwrap_or(&self.board);
        let mut short = command.replace("me@left", &self.board).replace("root@board", between);
        if let Some(host) = &self.host {
            short = match short.contains("me@right") {
                true => short.replace("me@right", host),
                false => short.replacen("linerate run ", &format!("linerate run --host {host} "), 1),
            };
        }
        for repeat in ["--repeat 20", "--repeat 10", "--repeat 5"] {
            short = short.replace(repeat, "--repeat 2");
        }
        short = short.replace(" profile 10", " profile 1").replace(" watch", " watch --count 1 --interval 200ms");
        match (short.contains("linerate run "), dry) {
            (false, _) => short,
            (true, true) => short + " --dry-run",
            (true, false) if short.contains("ttcp") => short + " --set bytes=2M",
            (true, false) if short.contains("duration=2s") => {
                short.replace("duration=2s", &format!("duration={}", self.duration)).replace(":50M", ":475M")
            }
            (true, false) => format!("{short} --set duration={} --set warmup=0s", self.duration),
        }
    }
}
