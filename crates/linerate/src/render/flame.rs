//! Flame graphs: a profile, or the difference of two, as an SVG picture.
//! Knows how the crate inferno draws; what colours mean is the table of categories'.

use std::collections::BTreeMap;
use std::io;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Options, from_lines};
use linerate_machine::printable::{in_line, is_printable};
use linerate_results::profile::{Category, MachineProfile};
use linerate_results::total::Total;

use linerate_results::profile::categories::Table;
use linerate_results::profile::functions::shown;

const WIDTH: usize = 1400;
/// Stands in the subtitle until the legend takes its place, which has colours and inferno's has not.
const LEGEND: &str = "LEGEND";

/// Wide is much time, above is who was called, and the colour says what for. Idle time is left out.
pub(crate) fn picture(profile: &MachineProfile, driver: Option<&str>, title: &str) -> io::Result<String> {
    let reader = Table::shipped().reader(&profile.taken, driver);
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let mut colours = PaletteMap::default();
    let mut seen = Vec::new();
    for stack in &profile.taken.stacks {
        let category = reader.of(stack);
        if category == Category::Idle {
            continue;
        }
        let samples = folded.entry(fold(profile, stack)).or_default();
        *samples = samples.saturating_add(stack.samples);
        if !seen.contains(&category) {
            seen.push(category);
        }
    }
    for (function, category) in profile.taken.functions.iter().zip(reader.of_functions()) {
        let colour = category.map_or(PALE, colour);
        colours.insert(frame(&shown(function)), colour);
    }
    colours.insert("all", PALE);
    for process in &profile.taken.processes {
        colours.insert(frame(&process.name), PALE);
    }
    seen.sort();
    let lines: Vec<String> = folded.iter().map(|(stack, samples)| format!("{stack} {samples}")).collect();
    let mut options = options(title);
    options.palette_map = Some(&mut colours);
    options.subtitle = Some(LEGEND.to_owned());
    Ok(drawn(&mut options, &lines)?.replace(LEGEND, &legend(&seen)))
}

/// Of a profile and one before it: as wide as it is now; red grew, blue shrank. Each stack has its time for a packet
/// where both know that, else its share.
pub(crate) fn difference(before: &MachineProfile, after: &MachineProfile, title: &str) -> io::Result<String> {
    let scale = Scale::of(before, after);
    let mut folded: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (side, (profile, by_sample)) in [(before, scale.before), (after, scale.after)].into_iter().enumerate() {
        for stack in profile.taken.stacks.iter().filter(|stack| !is_idle(profile, stack)) {
            folded.entry(fold(profile, stack)).or_default()[side] += stack.samples as f64 * by_sample;
        }
    }
    let lines: Vec<String> =
        folded.iter().map(|(stack, [a, b])| format!("{stack} {:.0} {:.0}", a.round(), b.round())).collect();
    let mut options = options(title);
    options.count_name = scale.unit.to_owned();
    options.subtitle = Some("red: more time than before; blue: less; width: time now".to_owned());
    drawn(&mut options, &lines)
}

/// Stacks as lines of text, the outermost function first: what other programs make pictures of.
pub(crate) fn folded(profile: &MachineProfile) -> String {
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.taken.stacks {
        let samples = folded.entry(fold(profile, stack)).or_default();
        *samples = samples.saturating_add(stack.samples);
    }
    folded.iter().map(|(stack, samples)| format!("{stack} {samples}\n")).collect()
}

/// What a sample stands for on either side.
struct Scale {
    before: f64,
    after: f64,
    unit: &'static str,
}

impl Scale {
    fn of(before: &MachineProfile, after: &MachineProfile) -> Scale {
        let by_packet = |profile: &MachineProfile| {
            let times = profile.categories.iter().filter(|one| one.category != Category::Idle);
            let us = times.clone().map(|one| one.us_per_packet).sum::<Option<f64>>()?;
            let samples = times.map(|one| one.samples).total();
            (samples > 0).then(|| us * 1e3 / samples as f64)
        };
        match (by_packet(before), by_packet(after)) {
            (Some(before), Some(after)) => Scale { before, after, unit: "ns a packet" },
            _ => {
                let share = |profile: &MachineProfile| 1e6 / profile.taken.samples.max(1) as f64;
                Scale { before: share(before), after: share(after), unit: "millionths" }
            }
        }
    }
}

fn is_idle(profile: &MachineProfile, stack: &linerate_machine::profile::Stack) -> bool {
    profile.taken.process(stack).is_some_and(|process| process.name == "swapper")
        && profile.taken.frames(stack).next().and_then(|one| Table::shipped().of_kernel(one)) == Some(Category::Idle)
}

fn fold(profile: &MachineProfile, stack: &linerate_machine::profile::Stack) -> String {
    let process = profile.taken.process(stack).map_or("?", |process| process.name.as_str());
    let mut folded = frame(process);
    for function in profile.taken.frames(stack).rev() {
        folded.push(';');
        folded.push_str(&frame(&shown(function)));
    }
    folded
}

/// A name as a folded stack can hold it.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || !is_printable(c) { ':' } else { c }).collect()
}

fn options(title: &str) -> Options<'static> {
    let mut options = Options::default();
    options.title = in_line(title, 200).into_owned();
    options.image_width = Some(WIDTH);
    options.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    options.deterministic = true;
    options
}

fn drawn(options: &mut Options<'_>, lines: &[String]) -> io::Result<String> {
    if lines.is_empty() {
        return Err(io::Error::other("nothing but idle time was found, which has no picture; profile a busy machine"));
    }
    let mut svg = Vec::new();
    from_lines(options, lines.iter().map(String::as_str), &mut svg)?;
    String::from_utf8(svg).map_err(io::Error::other)
}

/// Colours that differ for those too who see no red or no green (after Okabe and Ito, "Color Universal Design", 2008),
/// lightened so that black text can be read.
fn colour(category: Category) -> Color {
    let (r, g, b) = match category {
        Category::Copy => (226, 120, 70),
        Category::Checksum => (240, 228, 90),
        Category::AllocateFree => (235, 175, 60),
        Category::DriverInterrupt => (120, 170, 220),
        Category::SoftirqNapi => (150, 205, 240),
        Category::Protocol => (110, 195, 160),
        Category::SocketSyscall => (165, 220, 190),
        Category::Qdisc => (200, 200, 120),
        Category::Locking => (215, 110, 140),
        Category::Generator => (205, 165, 215),
        Category::Other => (200, 200, 200),
        Category::Idle => (230, 230, 230),
    };
    Color { r, g, b }
}

/// Of functions that work for their caller.
const PALE: Color = Color { r: 236, g: 236, b: 230 };

fn legend(categories: &[Category]) -> String {
    let entry = |category: &Category| {
        let Color { r, g, b } = colour(*category);
        format!("<tspan fill=\"rgb({r},{g},{b})\">\u{25a0}</tspan> {}", category.title())
    };
    categories.iter().map(entry).collect::<Vec<_>>().join("  ")
}
