//! `stores FILE CAMPAIGNS LOADS REPEATS`: a store of that many records, for `cargo xtask bench judging` to read.
//! Knows no figure: what stands in the records is the library's example.

use std::path::Path;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, campaigns, loads, repeats] = &words[..] else {
        return Err("it is: FILE CAMPAIGNS LOADS REPEATS".into());
    };
    let count = linerate_results::sample::fill(Path::new(file), campaigns.parse()?, loads.parse()?, repeats.parse()?)?;
    println!("{count}");
    Ok(())
}
