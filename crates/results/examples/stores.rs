//! `stores STORE CAMPAIGNS LOADS REPEATS TIMES`: a store of that many records, and their figures so many times more, for
//! `cargo xtask bench judging` to read.
//! Knows no figure: what stands in the records is the library's example.

use std::path::Path;

use linerate_results::sample;
use linerate_results::store::Store;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, campaigns, loads, repeats, times] = &words[..] else {
        return Err("it is: STORE CAMPAIGNS LOADS REPEATS TIMES".into());
    };
    let store = Path::new(store);
    let times: u64 = times.parse()?;
    let count = sample::fill(store, campaigns.parse()?, loads.parse()?, repeats.parse()?)?;
    if times > 0 {
        Store::open(store)?.lengthen(times)?;
    }
    println!("{}", count * (times + 1));
    Ok(())
}
