//! The machines as the console looks at them: a conversation that is opened to look, and closed for a measurement.
//! Knows screens and settings; it takes no lease and changes nothing.

use anyhow::{Result, bail};
use linerate_control::message::{Reply, Request, SCREENS};
use linerate_control::{Client, ConnectOptions, Endpoint};
use linerate_machine::change::Reading;
use linerate_machine::screen::{Screen, View};

use crate::measure::pair::ANSWER_TIME;

/// Looks at one machine at a time.
pub(super) struct Machines {
    options: ConnectOptions,
    open: Option<(Endpoint, Client)>,
}

impl Machines {
    pub(super) fn new(options: ConnectOptions) -> Machines {
        Machines { options, open: None }
    }

    /// A screen of the machine, now; of this interface, or of the first that is up.
    pub(super) fn view(&mut self, endpoint: &Endpoint, screen: Screen, interface: Option<String>) -> Result<View> {
        let client = self.reach(endpoint)?;
        if !client.hello().capabilities.iter().any(|one| one == SCREENS) {
            bail!("the agent of {} shows no screens; install this version of linerate there", client.machine());
        }
        match client.request(Request::Screen { screen, interface }, ANSWER_TIME)? {
            Reply::Screen(view) => Ok(*view),
            _ => bail!("{} answered something else; install the same version of linerate there", client.machine()),
        }
    }

    /// Its settings of these names, of this interface or of the first that is up.
    pub(super) fn settings(
        &mut self,
        endpoint: &Endpoint,
        names: &[String],
        interface: Option<String>,
    ) -> Result<Vec<Reading>> {
        let client = self.reach(endpoint)?;
        let Reply::Addresses { addresses, .. } = client.request(Request::Addresses, ANSWER_TIME)? else {
            bail!("{} did not tell its addresses; install the same version of linerate there", client.machine());
        };
        let up = addresses.into_iter().filter(|one| one.up).min_by_key(|one| one.loopback);
        let request = Request::Get {
            interface: interface.or(up.map(|one| one.interface)),
            names: names.to_vec(),
            custom: Vec::new(),
            values: Vec::new(),
        };
        match client.request(request, ANSWER_TIME)? {
            Reply::Settings { settings, .. } => Ok(settings),
            _ => bail!("{} did not tell its settings; install the same version of linerate there", client.machine()),
        }
    }

    /// Ends the conversation: nothing of it runs beside a measurement, and a serial line has room for one only.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    fn reach(&mut self, endpoint: &Endpoint) -> Result<&Client> {
        let is_open = self
            .open
            .as_ref()
            .is_some_and(|(other, client)| other == endpoint && client.request(Request::Ping, ANSWER_TIME).is_ok());
        if !is_open {
            // The one before ends first.
            self.open = None;
            let client = Client::connect(endpoint, "machine", &self.options)?;
            self.open = Some((endpoint.clone(), client));
        }
        match &self.open {
            Some((_, client)) => Ok(client),
            None => bail!("{endpoint} cannot be reached; try again"),
        }
    }
}
