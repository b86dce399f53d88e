//! Which symbol each address belongs to, with every symbol seen once and none kept but the ones that count.
//! Knows no format of symbols: kernels have hundreds of thousands, a profile a few hundred addresses.

/// For each of some addresses, the symbol that begins at it or before it, and nearest.
pub struct SymbolLookup {
    addresses: Vec<u64>,
    /// At each address the best symbol that begins above the address before it.
    best: Vec<Option<Symbol>>,
}

/// A symbol that is nearest to an address, so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    start: u64,
    /// Octets; 0: unknown.
    size: u64,
    /// Where its name is to be found, or the name.
    pub name: Name,
}

/// A name, or where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The name itself, and the kernel module if it is of one.
    Text(String, Option<String>),
    /// So many octets into a table of names.
    At(u64),
}

impl SymbolLookup {
    /// For these addresses.
    pub fn to(mut addresses: Vec<u64>) -> SymbolLookup {
        addresses.sort_unstable();
        addresses.dedup();
        SymbolLookup { best: vec![None; addresses.len()], addresses }
    }

    /// Looks at a symbol, in any order. `name` is asked only if it counts so far.
    pub fn offer(&mut self, start: u64, size: u64, name: impl FnOnce() -> Name) {
        let at = self.addresses.partition_point(|&address| address < start);
        let Some(best) = self.best.get_mut(at) else { return };
        // Of several names for one place, the first stays, unless it has no size and this one has.
        let counts = best.as_ref().is_none_or(|best| (start, size > 0) > (best.start, best.size > 0));
        if counts {
            *best = Some(Symbol { start, size, name: name() });
        }
    }

    /// Each address that has a symbol, with it.
    pub fn found(&self) -> impl Iterator<Item = (u64, &Symbol)> {
        let mut last = None;
        self.addresses.iter().zip(&self.best).filter_map(move |(&address, best)| {
            last = best.as_ref().or(last);
            let symbol: &Symbol = last?;
            (symbol.size == 0 || address - symbol.start < symbol.size).then_some((address, symbol))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(addresses: &[u64], symbols: &[(u64, u64, &str)], want: &[(u64, &str)]) {
        let turned: Vec<_> = symbols.iter().rev().copied().collect();
        for symbols in [symbols, &turned] {
            let mut nearest = SymbolLookup::to(addresses.to_vec());
            for &(start, size, name) in symbols {
                nearest.offer(start, size, || Name::Text(name.to_owned(), None));
            }
            let found = nearest.found().map(|(address, symbol)| match &symbol.name {
                Name::Text(name, _) => (address, name.as_str()),
                Name::At(_) => panic!("no such name was offered"),
            });
            assert_eq!(found.collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn the_nearest_before() {
        let symbols = [(10, 0, "a"), (20, 5, "b"), (30, 0, "c"), (u64::MAX, 0, "end")];
        check(
            &[5, 10, 19, 20, 24, 25, 31, 31, u64::MAX - 1],
            &symbols,
            &[(10, "a"), (19, "a"), (20, "b"), (24, "b"), (31, "c"), (u64::MAX - 1, "c")],
        );
        check(&[], &symbols, &[]);
        check(&[3], &[], &[]);
    }

    #[test]
    fn many_symbols_against_a_plain_search() {
        // Numbers that look random and are always the same (Knuth's multiplicative hash).
        let number = |k: u64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        let symbols: Vec<u64> = (0..500).map(number).collect();
        let addresses: Vec<u64> = (1000..1400).map(number).collect();
        let mut nearest = SymbolLookup::to(addresses.clone());
        for &start in &symbols {
            nearest.offer(start, 0, || Name::At(start));
        }
        for address in addresses {
            let want = symbols.iter().filter(|&&start| start <= address).max();
            let got = nearest.found().find(|(one, _)| *one == address).map(|(_, symbol)| &symbol.start);
            assert_eq!(got, want, "{address}");
        }
    }
}
