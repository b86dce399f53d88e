//! A profile: what a machine's CPUs were found doing, sample by sample, as stacks of functions.
//! Knows no perf events and no categories; the agent takes it, and its readers judge what the functions mean.

use serde::{Deserialize, Serialize};

use crate::words;

use crate::cpu::CpuUse;

/// What a machine's CPUs did over a span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What the samples were taken by.
    pub clock: ProfileClock,
    /// Whose time they are of.
    pub scope: ProfileScope,
    /// Whether the kernel's own functions were sampled too; without, a sample in the kernel is not taken.
    pub kernel: bool,
    /// Samples a second that each CPU was asked for.
    pub hz: u32,
    /// How many CPUs were sampled.
    pub cpus: u32,
    /// The span, seconds.
    pub span_s: f64,
    /// Samples that arrived.
    pub samples: u64,
    /// Samples that the kernel lost because nobody had read those before them.
    pub lost: u64,
    /// Samples whose stack found no more room; each is told by its innermost function alone.
    pub cut: u64,
    /// CPU time that reading the samples took, seconds.
    pub reader_cpu_s: f64,
    /// CPU time that the kernel takes for a sample, microseconds: measured by a loop that is sampled and one that is
    /// not. Absent where the machine was too busy to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_cost_us: Option<f64>,
    /// CPU use over the same span, where the profile stands by itself; in a trial, the trial's own counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuUse>,
    /// What could not be had, a sentence each that ends in what to try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The processes that were found running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// The functions that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// How often each stack was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
}

words! {
    /// What makes a CPU take a sample.
    ProfileClock {
        /// The processor's counter of cycles. It stands still while a CPU is halted, so idle time has no samples; and it
        /// interrupts what nothing else may interrupt.
        Cycles = "cycles",
        /// The kernel's clock. It runs while a CPU is idle; what keeps interrupts off is found only when it turns them on
        /// again.
        CpuClock = "cpu-clock",
    }
}

/// Whose time was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileScope {
    /// Everybody's, on every CPU.
    Machine,
    /// That of the agent's own threads, because it may see no others.
    Agent,
}

/// A process that was found running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its name (/proc/PID/comm); a number where it had ended before it could be asked.
    pub name: String,
    /// It is the agent itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
}

/// A function, as far as it has a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Function {
    /// Its symbol; absent where there is none for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is: `kernel`, a kernel module as `[name]`, or the name of a program's file.
    pub object: String,
}

/// The object of the kernel's own functions.
pub const KERNEL: &str = "kernel";

impl Function {
    /// Whether it runs in kernel mode.
    pub fn is_kernel(&self) -> bool {
        self.module().is_some() || self.object == KERNEL
    }

    /// The kernel module that has it.
    pub fn module(&self) -> Option<&str> {
        self.object.strip_prefix('[')?.strip_suffix(']').filter(|name| !PSEUDO.contains(name))
    }
}

/// What /proc/PID/maps shows in brackets, and is no kernel module.
const PSEUDO: [&str; 4] = ["vdso", "vectors", "sigpage", "anonymous"];

/// A stack, and how often it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Which of [`Profile::processes`].
    pub process: u32,
    /// Which of [`Profile::functions`], the innermost first.
    pub frames: Vec<u32>,
    /// Samples.
    pub samples: u64,
}

impl Profile {
    /// The profile without its stacks: what is left when only figures are wanted.
    pub fn without_stacks(&self) -> Profile {
        Profile { processes: Vec::new(), functions: Vec::new(), stacks: Vec::new(), ..self.clone() }
    }

    /// A stack's functions, the innermost first. What points nowhere is left out: profiles come from other machines.
    pub fn frames<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = &'a Function> {
        stack.frames.iter().filter_map(|&frame| self.functions.get(frame as usize))
    }

    /// The process of a stack.
    pub fn process(&self, stack: &Stack) -> Option<&Process> {
        self.processes.get(stack.process as usize)
    }

    /// Share of one CPU that the profile itself took, of each CPU: the kernel's part for each sample, and the reader's.
    pub fn own_share(&self) -> Option<f64> {
        let time = self.span_s * f64::from(self.cpus);
        let kernel_s = self.sample_cost_us? * 1e-6 * self.samples as f64;
        (time > 0.0).then(|| (kernel_s + self.reader_cpu_s) / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_from_programs() {
        let function = |object: &str| Function { name: None, object: object.to_owned() };
        for (object, kernel, module) in [
            ("kernel", true, None),
            ("[fec]", true, Some("fec")),
            ("[vdso]", false, None),
            ("libc.so.6", false, None),
            ("[", false, None),
        ] {
            let function = function(object);
            assert_eq!((function.is_kernel(), function.module()), (kernel, module), "{object}");
        }
    }
}
