//! `cargo run -p linerate-chart --example gallery FOLDER`: sample charts as files, to be looked at.

#[path = "../tests/charts/mod.rs"]
mod charts;

use linerate_chart::{svg, terminal};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(std::path::PathBuf::from) else {
        eprintln!("Name the folder for the pictures: gallery FOLDER");
        std::process::exit(2);
    };
    for (name, chart) in charts::all() {
        std::fs::write(folder.join(format!("{name}.svg")), svg::drawn(&chart, name))?;
        let texts = [terminal::drawn(&chart, 80, false), terminal::drawn(&chart, 80, true)];
        std::fs::write(folder.join(format!("{name}.txt")), texts.join("\n"))?;
    }
    Ok(())
}
