//! Machines made here: two network namespaces at the ends of one shaped cable, three in a row, and emulated boards.
//! Knows nothing of trials and records, nor of what is said to an agent.

pub mod boards;
mod lab;
mod link;
mod middle_lab;
mod missing_features;
mod port;
mod privilege;
pub mod services;
mod shape;
mod sys;

pub use lab::{
    HOST_IPV4, HOST_IPV6, IPV4_PREFIX, IPV6_PREFIX, LINK_NAME, Lab, LabError, QueueCounts, RECEIVE_QUEUE_NAME,
};
pub use lab::{TARGET_IPV4, TARGET_IPV6};
pub use middle_lab::{Forwards, MiddleLab, PORTS};
pub use missing_features::MissingFeature;
pub use port::Port;
pub use privilege::{Privilege, enter_user_namespace, privilege};
pub use shape::Shape;
pub use sys::Namespace;
