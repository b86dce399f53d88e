//! The real driver of `nic` against the devices of `model`: every interleaving, every bug that was ever put back, and
//! long runs by chance.

mod rings {
    mod mutants;
    mod original;
    mod patched;
    mod properties;
    mod scenarios;
    mod setup;
}
