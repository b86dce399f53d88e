//! `linerate target ENDPOINT registers`: registers by name, once or as they change.
//! Knows which words to ask an agent for; what they mean is decoded in [`linerate_registers`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use linerate_control::Client;
use linerate_control::message::{DEVICE_MEMORY, REGISTERS, Reply, Request};
use linerate_machine::registers::{PhyPlace, Readings, RegisterRequest};
use linerate_machine::units::parse_duration;
use linerate_registers::around::phy_id;
use linerate_registers::chosen::{Chosen, Selection};
use linerate_registers::decode::{Value, decode, knows_layout, value};
use linerate_registers::definition::Definitions;
use linerate_registers::difference::difference;

use super::show;
use crate::cli::RegistersArgs;
use crate::input_file;
use crate::interrupt;
use crate::measure::pair::ANSWER_TIME;
use crate::output::say;
use crate::render::registers as render;

/// What is wanted, valid as far as that can be told without the machine.
pub(super) struct Registers<'a> {
    arguments: &'a RegistersArgs,
    names: Vec<String>,
    interval: Option<Duration>,
    definitions: Definitions,
}

impl<'a> Registers<'a> {
    pub(super) fn prepare(arguments: &'a RegistersArgs) -> Result<Registers<'a>> {
        let mut names = arguments.names.clone();
        let interval = match arguments.watch.as_deref() {
            None => None,
            // `--watch ENET_RCR`: a name where the time may stand.
            Some(word) if !word.starts_with(|first: char| first.is_ascii_digit()) || word.starts_with("0x") => {
                names.push(word.to_owned());
                Some(Duration::from_secs(1))
            }
            Some(time) => Some(parse_duration(time).map_err(|bad| anyhow!("--watch: {bad}"))?),
        };
        if interval.is_some_and(|interval| interval.is_zero()) {
            bail!("--watch must be longer than zero; write 1 or 200ms");
        }
        Ok(Registers {
            arguments,
            names,
            interval,
            definitions: linerate_registers::definitions(&definition_files(&arguments.definitions)?)?,
        })
    }

    /// Shows them.
    pub(super) fn show(&self, client: &Client, interface: &str) -> Result<ExitCode> {
        let memory = self.arguments.allow_dev_mem;
        can(client, memory)?;
        let machine = Machine { client, interface };
        let places = [2, 3].map(|register| PhyPlace { device: None, register });
        let identity =
            RegisterRequest { phy: places.to_vec(), phy_address: self.arguments.phy, ..RegisterRequest::default() };
        let known = machine.read(&identity)?;
        let chosen = Chosen::of(&self.definitions, &known.device, phy_id(&identity, &known));
        let selection = chosen.select(&self.names, self.arguments.clearing).map_err(|sentence| anyhow!(sentence))?;
        let dump = selection.wanted(true, false, None).dump;
        let (dump, mut missing) = if dump { machine.has_dump(&chosen)? } else { (false, Vec::new()) };
        let wanted = selection.wanted(dump, memory, self.arguments.phy);
        let readings = machine.read(&wanted)?;
        missing.extend(readings.missing.iter().filter(|one| !missing.contains(one)).cloned().collect::<Vec<_>>());
        if !chosen.knows_mac() {
            missing.push(no_definitions(&known));
        }
        let values = values(&selection, &wanted, &readings);
        let decoded: Vec<_> =
            selection.registers.iter().zip(&values).filter_map(|(one, value)| Some(decode(one, (*value)?))).collect();
        if self.interval.is_none() || !self.arguments.look.json {
            let device = &known.device;
            let is_named = !self.names.is_empty();
            let json = self.arguments.look.json;
            show(&render::registers(&decoded, &selection.spared, device, is_named, json), json);
        }
        missing.extend(self.unread(&selection, &values, &missing));
        missing.iter().for_each(|sentence| say(format_args!("linerate: {}: {sentence}", client.machine())));
        let cleared: Vec<&str> = decoded.iter().filter(|one| one.cleared).map(|one| one.name.as_str()).collect();
        if !cleared.is_empty() && !self.arguments.look.json {
            let names = cleared.join(", ");
            say(format_args!("linerate: this reading has cleared what {names} had kept; nobody else sees it any more"));
        }
        let all = if self.names.is_empty() { !decoded.is_empty() } else { values.iter().all(Option::is_some) };
        if let (Some(interval), true) = (self.interval, !decoded.is_empty()) {
            self.watch(&machine, &selection, &wanted, values, interval)?;
        }
        Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(2) })
    }

    fn watch(
        &self,
        machine: &Machine<'_>,
        selection: &Selection<'_>,
        wanted: &RegisterRequest,
        mut before: Vec<Option<Value>>,
        interval: Duration,
    ) -> Result<()> {
        let began = Instant::now();
        let mut looks = 0;
        while !interrupt::requested() && self.arguments.count.is_none_or(|count| looks < count) {
            let next = Instant::now() + interval;
            while Instant::now() < next && !interrupt::requested() {
                std::thread::sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
            }
            let now = values(selection, wanted, &machine.read(wanted)?);
            let changes: Vec<_> = selection
                .registers
                .iter()
                .zip(before.iter().zip(&now))
                .filter_map(|(one, (before, now))| difference(&one.item, (*before)?, (*now)?))
                .collect();
            let json = self.arguments.look.json;
            show(&render::watched(&changes, began.elapsed().as_secs_f64(), json), json);
            before = now;
            looks += 1;
        }
        Ok(())
    }

    /// What was named and not read, where no other sentence says why.
    fn unread(&self, selection: &Selection<'_>, values: &[Option<Value>], said: &[String]) -> Option<String> {
        let absent = selection.registers.iter().zip(values).filter(|(_, value)| value.is_none());
        let names: Vec<&str> = absent.map(|(one, _)| one.item.register.name.as_str()).collect();
        if self.names.is_empty() || names.is_empty() || !said.is_empty() {
            return None;
        }
        let names = names.join(", ");
        Some(if self.arguments.allow_dev_mem {
            format!("where {names} is in memory is not known; give its definition a base (docs/registers.md)")
        } else {
            format!("the register dump has no {names}; --allow-dev-mem reads it from memory")
        })
    }
}

/// Whose registers.
struct Machine<'c> {
    client: &'c Client,
    interface: &'c str,
}

impl Machine<'_> {
    fn read(&self, wanted: &RegisterRequest) -> Result<Readings> {
        let request = Request::Registers { interface: self.interface.to_owned(), wanted: wanted.clone() };
        match self.client.request(request, ANSWER_TIME)? {
            Reply::Registers(readings) => Ok(readings.fitted(wanted)),
            _ => bail!(
                "{} did not tell its registers; install the same version of linerate there",
                self.client.machine()
            ),
        }
    }

    /// Whether the driver has a dump that the definitions can read, and if not, why.
    fn has_dump(&self, chosen: &Chosen<'_>) -> Result<(bool, Vec<String>)> {
        let readings = self.read(&RegisterRequest { dump: true, ..RegisterRequest::default() })?;
        let Some(dump) = readings.dump else { return Ok((false, readings.missing)) };
        if chosen.knows_dump(|layout| knows_layout(layout, &dump)) {
            return Ok((true, Vec::new()));
        }
        let sentence = format!(
            "the register dump has the layout {:#x}, which no definition knows; try --allow-dev-mem",
            dump.version
        );
        Ok((false, vec![sentence]))
    }
}

fn values(selection: &Selection<'_>, wanted: &RegisterRequest, readings: &Readings) -> Vec<Option<Value>> {
    selection.registers.iter().map(|one| value(&one.item, wanted, readings)).collect()
}

fn no_definitions(known: &Readings) -> String {
    let driver = known.device.driver.as_deref().unwrap_or("unknown");
    format!(
        "there are no definitions for this MAC (driver {driver}); write some (docs/registers.md) and give them with \
         --definitions"
    )
}

fn can(client: &Client, memory: bool) -> Result<()> {
    let has = |name: &str| client.hello().capabilities.iter().any(|one| one == name);
    if !has(REGISTERS) {
        bail!("{}: its agent reads no registers; install the same version of linerate there", client.machine());
    }
    if memory && !has(DEVICE_MEMORY) {
        bail!(
            "{}: its agent reads no physical memory for a key alone; start it with --allow-dev-mem, or reach it over ssh",
            client.machine()
        );
    }
    Ok(())
}

/// The names and texts of these files, and of the `.regs` files of these folders, by name.
fn definition_files(paths: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for path in paths {
        for file in files(path)? {
            let text = input_file::text(&file).context("--definitions (docs/registers.md)")?;
            texts.push((file.display().to_string(), text));
        }
    }
    Ok(texts)
}

/// The file, or the `.regs` files of the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read the folder {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "regs"))
        .collect();
    files.sort();
    anyhow::ensure!(!files.is_empty(), "the folder {} has no file *.regs; see docs/registers.md", path.display());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_definitions_are_its_files_by_name() {
        let folder = std::env::temp_dir().join(format!("linerate-regs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let read = || definition_files(std::slice::from_ref(&folder));
        assert!(read().unwrap_err().to_string().contains("no file *.regs"));
        for (name, text) in [("b.regs", "b"), ("a.regs", "a"), ("notes.txt", "no definitions")] {
            fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(read().unwrap().into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["a", "b"]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(read().is_err());
    }
}
