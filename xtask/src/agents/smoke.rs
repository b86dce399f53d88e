//! `cargo xtask agents --smoke`: each agent under QEMU's user emulation, driven by this machine's linerate.
//! Knows no toolchain. What an emulated program's speed or CPU use is says nothing, and is not looked at.
//!
//! ```text
//!  linerate ──┬── exec: nsenter … qemu-mips-static linerate-agent-mips --stdio    (the target's namespace)
//!             └── netns: linerate agent                                          (the host's)
//! ```
//! The kernel under the emulated agent is this machine's. So this shows octet order, word length, system calls and
//! structures, and a conversation between unlike machines; what a board's kernel and drivers say, it does not show.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_control::message::PROTOCOL;
use linerate_lab::{Lab, Privilege, Shape, enter_user_namespace, privilege};
use serde_json::Value;

use super::machines::Machine;
use crate::program::{is_installed, linerate, program};

/// What is measured: plan, more words, and what each record must have in `result`.
const RUNS: [(&str, &[&str], &[&str]); 4] = [
    // No `tcp`: QEMU passes TCP_INFO on as a number.
    ("tcp-stream", &["direction=tx,rx", "rate=20M"], &["throughput_bps", "achieved_load_bps"]),
    (
        "udp-stream",
        &["direction=tx,rx", "rate=5M", "ip=4,6"],
        &["throughput_bps", "packets_sent", "packets_received", "packets_lost", "jitter_s", "loss_ratio"],
    ),
    ("tcp-rr", &["direction=tx,rx"], &["transactions_per_s", "latency"]),
    ("udp-rr", &["direction=tx,rx"], &["transactions_per_s", "latency"]),
];

/// What every target in a record must have told.
const TOLD: [&str; 4] = ["environment", "counters", "cpu", "address"];

/// Two machines that traffic goes between, and the program that makes it go.
pub(super) struct Smoke {
    lab: Lab,
    linerate: PathBuf,
    folder: PathBuf,
}

impl Smoke {
    /// Makes both. Before the first thread: a user namespace is entered without root.
    pub(super) fn up() -> Result<Smoke, String> {
        match privilege() {
            Privilege::UserNamespace => enter_user_namespace().map_err(|error| error.to_string())?,
            Privilege::Root => {}
            Privilege::None { why } => return Err(format!("no network namespaces can be made: {why}")),
        }
        let linerate = linerate()?;
        let lab = Lab::up(&Shape::unshaped()).map_err(|error| error.to_string())?;
        let folder = std::env::temp_dir().join(format!("linerate-smoke-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Smoke { lab, linerate, folder })
    }

    /// Sees that this agent works.
    pub(super) fn check(&self, machine: &Machine, agent: &Path) -> Result<(), String> {
        let wrong = |what: String| format!("the agent for {}: {what}", machine.name);
        let target = self.target(machine, agent)?;
        let info: Value = parse(&self.linerate(&["target", &target, "info", "--json"])?).map_err(wrong)?;
        if !info.to_string().contains("\"kernel\"") {
            return Err(wrong(format!("it does not say what kernel it runs on: {info}")));
        }
        self.linerate(&["target", &target, "counters", "--interface", "eth0"]).map_err(wrong)?;
        self.linerate(&["target", &target, "get", "mtu", "--interface", "eth0"]).map_err(wrong)?;
        for (plan, options, wanted) in RUNS {
            let records = self.measure(&target, plan, options).map_err(wrong)?;
            let least = options.iter().map(|option| option.matches(',').count() + 1).product::<usize>();
            if records.len() != least {
                return Err(wrong(format!("{plan}: {} records of {least}", records.len())));
            }
            for record in &records {
                complete(record, wanted).map_err(|what| wrong(format!("{plan}: {what}: {record}")))?;
            }
        }
        Ok(())
    }

    /// Octets resident while nothing is asked of it: of the emulated program's own memory, not of QEMU's.
    pub(super) fn idle(&self, machine: &Machine, agent: &Path) -> Result<u64, String> {
        let mut command = self.command(machine, agent)?;
        let child = command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", agent.display()))?;
        let mut greeting = String::new();
        if let (Some(stdin), Some(stdout)) = (&mut child.stdin, child.stdout.take()) {
            let _ = writeln!(stdin, "{{\"linerate\":{PROTOCOL},\"program\":\"xtask\"}}");
            let _ = BufReader::new(stdout).read_line(&mut greeting);
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        let maps = fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap_or_default();
        let _ = child.kill();
        let _ = child.wait();
        resident(&maps, agent, machine.kind.bits)
            .ok_or_else(|| format!("{}: no memory map; {greeting}", agent.display()))
    }

    fn target(&self, machine: &Machine, agent: &Path) -> Result<String, String> {
        let command = self.command(machine, agent)?;
        let words = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        let netns = self.lab.target.path();
        let program = command.get_program().to_string_lossy().into_owned();
        Ok(format!("exec:exec nsenter --net={} {program} {words} --stdio", netns.display()))
    }

    /// The agent: by itself where this machine is of its kind.
    fn command(&self, machine: &Machine, agent: &Path) -> Result<Command, String> {
        let agent = agent.to_str().ok_or("the repository's folder is no text")?;
        if machine.name == std::env::consts::ARCH {
            return Ok(program(agent, &[]));
        }
        let qemu = format!("qemu-{}-static", machine.qemu);
        if !is_installed(&qemu) {
            return Err(format!("{qemu} is not installed; 'cargo xtask setup agents' does that"));
        }
        Ok(program(&qemu, &[agent]))
    }

    fn measure(&self, target: &str, plan: &str, options: &[&str]) -> Result<Vec<Value>, String> {
        let host = format!("netns:{}", self.lab.host.path().display());
        let store = self.folder.join("records.sqlite").display().to_string();
        let mut words = vec!["run", plan, "--target", target, "--host", &host, "--store", &store, "--json", "--quiet"];
        for option in options.iter().chain(&["duration=1s", "warmup=0s"]) {
            words.extend(["--set", option]);
        }
        self.linerate(&words)?.lines().map(parse).collect()
    }

    fn linerate(&self, words: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.linerate).args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.linerate.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!(
            "linerate {} ended with {}: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

impl Drop for Smoke {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn parse(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| format!("no JSON: {error}: {line}"))
}

/// Sees that a record is a measurement, and lacks nothing.
fn complete(record: &Value, wanted: &[&str]) -> Result<(), String> {
    if let Some(error) = record.get("error") {
        return Err(format!("it failed: {error}"));
    }
    let has = |of: &Value, name: &str| of.get(name).is_some_and(|value| !value.is_null());
    for name in wanted {
        if !has(&record["result"], name) {
            return Err(format!("there is no result.{name}"));
        }
    }
    for name in TOLD {
        if !has(&record["target"], name) {
            return Err(format!("there is no target.{name}"));
        }
    }
    let figure = |name: &str| record["result"][name].as_f64().unwrap_or(0.0);
    if figure("throughput_bps") <= 0.0 && figure("transactions_per_s") <= 0.0 {
        return Err("nothing was moved".to_owned());
    }
    let stages: BTreeSet<&String> =
        record["target"]["counters"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    if stages.len() < 5 {
        return Err(format!("only these stages have counters: {stages:?}"));
    }
    Ok(())
}

/// What is resident of the addresses that an emulated program has: QEMU keeps them together, from where the program's
/// file is mapped on, and its own far above (linux-user/main.c, guest_base). smaps: proc_pid_smaps(5).
fn resident(maps: &str, agent: &Path, bits: u8) -> Option<u64> {
    let file = agent.file_name()?.to_str()?;
    let (mut base, mut within, mut sum) = (None, false, 0);
    for line in maps.lines() {
        if let Some((start, _)) = line.split_once('-').filter(|(start, _)| u64::from_str_radix(start, 16).is_ok()) {
            let start = u64::from_str_radix(start, 16).ok()?;
            if base.is_none() && line.ends_with(file) {
                base = Some(start);
            }
            let size = if bits == 32 { 1 << 32 } else { 1 << 40 };
            within = base.is_some_and(|base| start - base < size);
        } else if let Some(rss) = line.strip_prefix("Rss:").filter(|_| within) {
            sum += rss.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024;
        }
    }
    base.map(|_| sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_memory_is_told_from_qemus() {
        let maps = "7000-8000 rw-p 0 0:0 0\nRss: 8 kB\n\
                    10000-20000 r-xp 0 0:0 1   /x/linerate-agent-mips\nSize: 64 kB\nRss:    40 kB\n\
                    30000-40000 rw-p 0 0:0 0\nRss: 4 kB\n\
                    7f0000000000-7f0000001000 rw-p 0 0:0 0\nRss: 900 kB\n";
        assert_eq!(resident(maps, Path::new("/x/linerate-agent-mips"), 32), Some(44 << 10));
        assert_eq!(resident(maps, Path::new("/x/linerate-agent-arm"), 32), None);
    }

    #[test]
    fn a_record_that_lacks_something_is_not_complete() {
        let stages = serde_json::json!({"a": {}, "b": {}, "c": {}, "d": {}, "e": {}});
        let target = serde_json::json!({"environment": {}, "counters": stages, "cpu": {}, "address": "x"});
        let whole = serde_json::json!({"result": {"throughput_bps": 1.0}, "target": target});
        assert_eq!(complete(&whole, &["throughput_bps"]), Ok(()));
        assert!(complete(&whole, &["jitter_s"]).unwrap_err().contains("jitter_s"));
        let mut failed = whole.clone();
        failed["error"] = "it broke".into();
        assert!(complete(&failed, &[]).is_err());
        let mut still = whole;
        still["result"]["throughput_bps"] = 0.into();
        assert!(complete(&still, &[]).unwrap_err().contains("moved"));
    }
}
