//! What holds where the command line says nothing: the environment, then a `linerate.toml` beside the plan file, then one in
//! the working directory.
//! Knows texts and places; what an endpoint does is known elsewhere.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use linerate_control::{Endpoint, EndpointError};
use linerate_machine::text::nearest;
use linerate_results::store::is_url;
use toml::de::DeTable;

use crate::input_file;

/// The file's name.
pub(crate) const FILE: &str = "linerate.toml";
/// Its keys; in capitals and behind `LINERATE_` they are variables of the environment.
const KEYS: [&str; 5] = ["target", "host", "middle", "store", "psk_file"];

/// The defaults that are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) target: Option<Endpoint>,
    pub(crate) host: Option<Endpoint>,
    pub(crate) middle: Option<Endpoint>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) psk_file: Option<PathBuf>,
}

impl Defaults {
    /// Those of the environment and of files; `plan_folder` is where the plan file is.
    pub(crate) fn find(plan_folder: Option<&Path>) -> Result<Defaults> {
        let mut defaults = Defaults::default();
        for key in KEYS {
            let variable = format!("LINERATE_{}", key.to_uppercase());
            if let Some(text) = std::env::var_os(&variable).filter(|text| !text.is_empty()) {
                let text = text.into_string().map_err(|_| anyhow!("{variable}: its value is no text"))?;
                defaults.take(key, &text).map_err(|why| anyhow!("{variable}: {why}"))?;
            }
        }
        let here = Path::new("");
        for folder in plan_folder.into_iter().filter(|folder| *folder != here).chain([here]) {
            defaults.read(folder)?;
        }
        Ok(defaults)
    }

    /// Takes what the file in this folder says and nobody has said before.
    fn read(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = match input_file::text(&path) {
            Err(error) if error.is_absent() => return Ok(()),
            read => read?,
        };
        let said = |at: usize, why: String| {
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            anyhow!("{}:{line}: {why}", path.display())
        };
        let table = DeTable::parse(&text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            said(error.span().map_or(0, |span| span.start), format!("this is not TOML: {message}"))
        })?;
        for (key, value) in table.get_ref() {
            let (at, key) = (key.span().start, key.get_ref().as_ref());
            if !KEYS.contains(&key) {
                let near = nearest(key, KEYS).map(|near| format!("did you mean '{near}'? ")).unwrap_or_default();
                return Err(said(at, format!("there is no '{key}' here; {near}it takes {}", KEYS.join(", "))));
            }
            let Some(text) = value.get_ref().as_str() else {
                return Err(said(at, format!("{key} is a text in quotes, like {key} = \"…\"")));
            };
            // Of the file's folder, wherever it is used from.
            let text = match key {
                "store" if is_url(text) => text.to_owned(),
                "store" | "psk_file" => folder.join(text).display().to_string(),
                _ => text.to_owned(),
            };
            let mut its = Defaults::default();
            its.take(key, &text).map_err(|why| said(at, why))?;
            // The file may have come with somebody else's plans.
            if let Some(Endpoint::Exec(command)) = its.target.as_ref().or(its.host.as_ref()).or(its.middle.as_ref()) {
                let sentence = format!(
                    "exec: is not followed from a file, for its command would run here: {command}; if it is one of yours, \
                     give it with --{key} or LINERATE_{}",
                    key.to_uppercase()
                );
                return Err(said(at, sentence));
            }
            self.fill(its);
        }
        Ok(())
    }

    fn take(&mut self, key: &str, text: &str) -> Result<(), String> {
        let mut its = Defaults::default();
        let endpoint = || text.parse().map(Some).map_err(|error: EndpointError| error.to_string());
        match key {
            "target" => its.target = endpoint()?,
            "host" => its.host = endpoint()?,
            "middle" => its.middle = endpoint()?,
            "store" => its.store = Some(text.into()),
            _ => its.psk_file = Some(text.into()),
        }
        self.fill(its);
        Ok(())
    }

    /// Takes from the other what is missing here.
    fn fill(&mut self, other: Defaults) {
        self.target = self.target.take().or(other.target);
        self.host = self.host.take().or(other.host);
        self.middle = self.middle.take().or(other.middle);
        self.store = self.store.take().or(other.store);
        self.psk_file = self.psk_file.take().or(other.psk_file);
    }
}
