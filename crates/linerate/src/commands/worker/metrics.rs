//! What a worker tells a scraper: counted as it happens, told when it is asked.
//! Knows what is counted, not how it is written down.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use linerate_machine::sync::Mutex;
use linerate_work::{CampaignEnd, Nats, Worker};

use crate::cli::WorkerArgs;
use crate::output::say;
use crate::render::metrics::{OfWorker, families_of_worker};
use crate::web::{Counters, ScraperToken, Served, WebListener};

/// What is counted, and who serves it where that was asked for.
#[derive(Default)]
pub(super) struct Metrics {
    told: Arc<Mutex<OfWorker>>,
    served: Option<Served>,
}

impl Metrics {
    /// Listens, if `--metrics` says so.
    pub(super) fn begin(arguments: &WorkerArgs, quiet: bool) -> Result<Metrics> {
        let Some(file) = &arguments.metrics else { return Ok(Metrics::default()) };
        let address = arguments.metrics_listen;
        if !address.ip().is_loopback() {
            bail!(
                "--metrics-listen: {address} is reached by others too, and what passes there is in the clear: listen on \
                 127.0.0.1, and let a proxy of yours or ssh -L lead there"
            );
        }
        let scraper = ScraperToken::of(file)?;
        let told = Arc::<Mutex<OfWorker>>::default();
        let of = Arc::clone(&told);
        let tell = move || families_of_worker(&of.lock(), env!("CARGO_PKG_VERSION"));
        let door = WebListener::tcp(address, None)?;
        let port = door.address().map_or(0, |address| address.port());
        let served = Some(Served::begin(Counters::new(scraper, tell), door)?);
        if !quiet {
            say(format_args!(
                "linerate: a scraper reads http://{}:{port}/metrics with the token in {}",
                if address.is_ipv6() { "[::1]" } else { "127.0.0.1" },
                file.display()
            ));
        }
        Ok(Metrics { told, served })
    }

    pub(super) fn begun(&self) {
        self.told.lock().begun += 1;
    }

    /// What became of a job, and how many settings its campaign could not put back.
    pub(super) fn came(&self, came: &CampaignEnd, not_put_back: u64) {
        let mut told = self.told.lock();
        let outcome = match came {
            CampaignEnd::Done { failed_trials } => {
                told.failed_trials += *failed_trials as u64;
                "done"
            }
            CampaignEnd::Failed(_) => "failed",
            CampaignEnd::Refused(_) => "refused",
            CampaignEnd::Stopped => "stopped",
            CampaignEnd::HandedBack(_) => "handed_back",
        };
        *told.jobs.entry(outcome).or_default() += 1;
        told.not_put_back += not_put_back;
    }

    /// Notes the worker's present state; does nothing where no scraper is served.
    pub(super) fn stands(&self, core: &Worker, queue: &Nats, running: usize, mono_ms: u64) {
        if self.served.is_none() {
            return;
        }
        let mut benches: BTreeMap<String, Option<f64>> = core.benches().into_iter().map(|name| (name, None)).collect();
        benches.extend(core.leases(mono_ms).map(|(bench, age_ms)| (bench.to_owned(), Some(age_ms as f64 / 1000.0))));
        let (connects, is_connected) = queue.connections();
        let mut told = self.told.lock();
        (told.benches, told.running, told.connects, told.is_connected) = (benches, running, connects, is_connected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::metrics::openmetrics;

    #[test]
    fn what_a_worker_tells() {
        let metrics = Metrics::default();
        for came in [
            CampaignEnd::Done { failed_trials: 2 },
            CampaignEnd::Done { failed_trials: 0 },
            CampaignEnd::Failed("x".to_owned()),
            CampaignEnd::Refused("x".to_owned()),
        ] {
            metrics.begun();
            metrics.came(&came, 1);
        }
        let mut told = metrics.told.lock();
        told.benches = [("imx6-1".to_owned(), Some(2.5)), ("a\"b\n".to_owned(), None)].into();
        (told.running, told.connects, told.is_connected) = (1, 3, true);
        insta::assert_snapshot!(openmetrics(families_of_worker(&told, "0.1.0")));
    }
}
