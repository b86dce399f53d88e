//! Where samples were found: addresses made into frames that are alike for alike code, and named at the end.
//! Knows processes, their files and the kernel's functions; counts nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use linerate_machine::profile::{Function, KERNEL, Process, Stack};

use super::elf;
use super::kallsyms::{self, SymbolStarts};
use super::maps::Maps;
use super::nearest::{Name, SymbolLookup};
use super::record::Sample;
use super::stacks::{DEEPEST, Stacks};

/// What is known of processes, files and the kernel, as samples come.
///
/// A frame is a number: of the kernel's functions, where they begin; of a program, its file and the place therein. So
/// a function of the kernel is one frame wherever in it a CPU was found, and one program run many times is one.
pub struct Places {
    starts: SymbolStarts,
    own_name: String,
    by_pid: HashMap<u32, Known>,
    processes: Vec<Process>,
    objects: Vec<Object>,
}

/// A process, and what it has mapped once that was wanted.
struct Known {
    process: u32,
    maps: Option<Maps>,
}

/// A file that programs run, as one of its processes sees it.
struct Object {
    path: String,
    pid: u32,
}

/// A frame that no function is known for, of the kernel.
const HIDDEN: u64 = 0;
/// A frame of a program has its object's number, from 1, above the place in the file; one of the kernel has none there,
/// or all that a kernel's addresses have there.
const PLACE_BITS: u32 = 48;
const MOST_OBJECTS: usize = 2048;
/// The most processes that are told apart.
const MOST_PROCESSES: usize = 4096;
/// The most stacks that are told; the rarest beyond them are told by their innermost function.
const MOST_TOLD: usize = 3000;

impl Places {
    /// Ready for samples.
    pub fn new() -> Places {
        let starts = SymbolStarts::read().unwrap_or_default();
        let own_name = name_of(std::process::id());
        Places { starts, own_name, by_pid: HashMap::new(), processes: Vec::new(), objects: Vec::new() }
    }

    /// Whether the kernel shows where its functions are.
    pub fn shows_kernel(&self) -> bool {
        !self.starts.is_empty()
    }

    /// A sample's process, and its frames into `frames`, the innermost first.
    pub fn of(&mut self, sample: &Sample<'_>, frames: &mut Vec<u64>) -> u32 {
        frames.clear();
        for (address, user) in sample.frames().take(DEEPEST) {
            let frame =
                if user { self.of_program(sample.pid, address, frames.is_empty()) } else { self.of_kernel(address) };
            // Without names the kernel's part says no more than that it was in the kernel.
            frames.extend(frame.filter(|frame| *frame != HIDDEN || frames.last() != Some(&HIDDEN)));
        }
        self.process(sample.pid)
    }

    fn of_kernel(&self, address: u64) -> Option<u64> {
        Some(if self.shows_kernel() { self.starts.start(address) } else { HIDDEN })
    }

    /// Programs without frame pointers leave chains of anything: what is no code was no caller.
    fn of_program(&mut self, pid: u32, address: u64, innermost: bool) -> Option<u64> {
        self.process(pid);
        let known = self.by_pid.get_mut(&pid)?;
        let maps = known
            .maps
            .get_or_insert_with(|| Maps::parse(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()));
        let (path, place) = match maps.find(address) {
            Some(found) => found,
            None if innermost => ("[anonymous]", 0),
            None => return None,
        };
        let object = match self.objects.iter().position(|object| object.path == path) {
            Some(at) => at,
            None if self.objects.len() < MOST_OBJECTS => {
                self.objects.push(Object { path: path.to_owned(), pid });
                self.objects.len() - 1
            }
            None => return None,
        };
        // Memory of no file has no functions.
        let place = if path.starts_with('[') { 0 } else { place & ((1 << PLACE_BITS) - 1) };
        Some((object as u64 + 1) << PLACE_BITS | place)
    }

    /// The number of a process by its name: one program run many times is one.
    fn process(&mut self, pid: u32) -> u32 {
        if let Some(known) = self.by_pid.get(&pid) {
            return known.process;
        }
        if self.by_pid.len() >= MOST_PROCESSES {
            return u32::MAX;
        }
        let name = if pid == 0 { "swapper".to_owned() } else { name_of(pid) };
        let agent = pid != 0 && name == self.own_name;
        let process = match self.processes.iter().position(|process| process.name == name) {
            Some(at) => at,
            None => {
                self.processes.push(Process { name, agent });
                self.processes.len() - 1
            }
        } as u32;
        self.by_pid.insert(pid, Known { process, maps: None });
        process
    }

    /// Processes, functions and stacks by name. Reads the kernel's symbols and the programs' files: not for while
    /// something is being measured.
    pub fn told(mut self, stacks: &Stacks) -> SampleCounts {
        let frames: BTreeSet<u64> = stacks.iter().flat_map(|(_, frames, _)| frames.iter().copied()).collect();
        let (of_kernel, of_programs): (Vec<u64>, Vec<u64>) =
            frames.into_iter().partition(|&frame| object_of(frame).is_none());
        let mut functions: HashMap<u64, Function> = HashMap::new();
        self.name_kernel(of_kernel, &mut functions);
        self.name_programs(&of_programs, &mut functions);
        let mut told = SampleCounts::default();
        let mut numbers: HashMap<&Function, u32> = HashMap::new();
        let mut sums: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
        let unknown = self.processes.len() as u32;
        for (process, frames, samples) in stacks.iter() {
            let named = frames.iter().filter_map(|frame| functions.get(frame)).map(|function| {
                *numbers.entry(function).or_insert_with(|| {
                    told.functions.push(function.clone());
                    told.functions.len() as u32 - 1
                })
            });
            *sums.entry((process.min(unknown), named.collect())).or_default() += samples;
        }
        if sums.keys().any(|(process, _)| *process == unknown) {
            self.processes.push(Process { name: "others".to_owned(), agent: false });
        }
        let mut all: Vec<Stack> =
            sums.into_iter().map(|((process, frames), samples)| Stack { process, frames, samples }).collect();
        // The most frequent first; alike ones in an order of their own, so that the same samples tell the same.
        all.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.frames.cmp(&b.frames)));
        for mut stack in all.split_off(all.len().min(MOST_TOLD)) {
            stack.frames.truncate(1);
            told.cut += stack.samples;
            match all[MOST_TOLD..].iter_mut().find(|one| one.process == stack.process && one.frames == stack.frames) {
                Some(one) => one.samples += stack.samples,
                None => all.push(stack),
            }
        }
        (told.stacks, told.processes) = (all, self.processes);
        told
    }

    fn name_kernel(&self, frames: Vec<u64>, functions: &mut HashMap<u64, Function>) {
        for &frame in &frames {
            functions.insert(frame, Function { name: None, object: KERNEL.to_owned() });
        }
        let mut nearest = SymbolLookup::to(frames);
        let _ = kallsyms::name(&mut nearest);
        for (frame, symbol) in nearest.found() {
            if let Name::Text(name, module) = &symbol.name
                && frame != HIDDEN
            {
                let object = module.as_ref().map_or(KERNEL.to_owned(), |module| format!("[{module}]"));
                functions.insert(frame, Function { name: Some(name.clone()), object });
            }
        }
    }

    fn name_programs(&self, frames: &[u64], functions: &mut HashMap<u64, Function>) {
        for group in frames.chunk_by(|a, b| object_of(*a) == object_of(*b)) {
            let Some(object) = object_of(group[0]).and_then(|number| self.objects.get(number)) else { continue };
            let name = object.path.rsplit('/').next().unwrap_or(&object.path).to_owned();
            for &frame in group {
                functions.insert(frame, Function { name: None, object: name.clone() });
            }
            let places: Vec<u64> = group.iter().map(|frame| frame & ((1 << PLACE_BITS) - 1)).collect();
            for (place, symbol) in object.names(&places).unwrap_or_default() {
                let frame = (group[0] >> PLACE_BITS) << PLACE_BITS | place;
                functions.insert(frame, Function { name: Some(symbol), object: name.clone() });
            }
        }
    }
}

/// What the samples came to.
#[derive(Default)]
pub struct SampleCounts {
    /// Named by [`SampleCounts::stacks`].
    pub processes: Vec<Process>,
    /// Named by [`SampleCounts::stacks`].
    pub functions: Vec<Function>,
    /// The most frequent first.
    pub stacks: Vec<Stack>,
    /// Samples that lost their callers for there being too many stacks.
    pub cut: u64,
}

impl Object {
    /// Names of the functions at places in the file, as the process saw it: it may have another root than we.
    fn names(&self, places: &[u64]) -> io::Result<Vec<(u64, String)>> {
        if self.path.starts_with('[') {
            return Ok(Vec::new());
        }
        let own = PathBuf::from(format!("/proc/{}/root{}", self.pid, self.path));
        let mut file = [own, PathBuf::from(&self.path)].iter().find_map(|path| {
            // A device or a pipe with such a name must not be opened, for that may wait, or do something.
            fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            File::open(path).ok()
        });
        file.as_mut().map_or(Ok(Vec::new()), |file| elf::names(file, places))
    }
}

/// The object of a program's frame; `None`: the kernel's.
fn object_of(frame: u64) -> Option<usize> {
    let number = (frame >> PLACE_BITS) as usize;
    (number != 0 && number < 1 << 15).then(|| number - 1)
}

/// /proc/PID/comm (proc_pid_comm(5)); its number where the process has ended.
fn name_of(pid: u32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) if !name.is_empty() => String::from_utf8_lossy(&name).trim_end().to_owned(),
        _ => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_programs_and_of_kernels_differ() {
        for (frame, object) in [
            (HIDDEN, None),
            (0xc010_0000, None),
            (0xffff_ffff_8100_0000, None),
            (0xc000_0000_0000_1000, None),
            (1 << PLACE_BITS | 0xc010_0000, Some(0)),
            ((MOST_OBJECTS as u64) << PLACE_BITS, Some(MOST_OBJECTS - 1)),
        ] {
            assert_eq!(object_of(frame), object, "{frame:x}");
        }
    }

    #[test]
    fn too_many_stacks_lose_callers_and_no_samples() {
        let mut stacks = Stacks::default();
        for stack in 0..4000u64 {
            let frames: Vec<u64> =
                (0..4).map(|depth| (1 << PLACE_BITS) | (stack % 10) | (stack >> (3 * depth)) << 20).collect();
            stacks.count(0, &frames);
        }
        let places = Places {
            starts: SymbolStarts::default(),
            own_name: String::new(),
            by_pid: HashMap::new(),
            processes: vec![Process { name: "one".to_owned(), agent: false }],
            objects: vec![Object { path: "[anonymous]".to_owned(), pid: 1 }],
        };
        let told = places.told(&stacks);
        assert_eq!(told.stacks.iter().map(|stack| stack.samples).sum::<u64>(), 4000);
        // Memory of no file has no functions to tell apart, so few are left.
        assert!(told.functions.len() == 1 && told.stacks.len() <= 4, "{:?}", told.functions);
    }
}
