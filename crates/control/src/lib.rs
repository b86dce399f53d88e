//! The conversation between controller and agent: messages, framing, transports, authentication, the client.
//! Knows nothing of how traffic is made.
#![forbid(unsafe_code)]

mod address;
mod bare_machine;
mod carry;
mod client;
mod connect_options;
mod endpoint;
mod error;
mod labgrid;
mod lease;
pub mod line;
mod link;
mod listen;
pub mod message;
pub mod noise;
pub mod private;
pub mod serial;
mod server;
mod ssh;

pub use client::{AgentEvent, Client, Pending};
pub use connect_options::ConnectOptions;
pub use endpoint::{Endpoint, EndpointError, endpoint_forms, hold_places};
pub use error::{ControlError, Machine};
pub use labgrid::Place;
pub use lease::{Connect, Lease, LeaseError};
pub use link::{Guard, Link};
pub use listen::{Limits, Listener};
pub use noise::{Psk, PskError};
pub use server::{ConversationEnd, Outbox, SILENCE, Server, Unreadable, read_request, serve};

/// A thread of the conversation. Messages are parsed on it: the stack bears JSON as deep as serde_json allows
/// (128 levels), and only what is touched of it costs memory.
fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<std::thread::JoinHandle<()>> {
    linerate_machine::thread::start(name, 256 * 1024, work)
}
