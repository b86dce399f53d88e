//! What a driver is told: how frames stand in memory, what is dropped, and what the link is.

/// How a driver works. The default is what the controllers have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Octets before each received frame.
    pub offset: Offset,
    /// When a frame is copied before it is sent.
    pub bounce: Bounce,
    /// What becomes of a received frame whose descriptor tells of a fault.
    pub faulty: Faulty,
    /// Pause frames that arrive are obeyed.
    pub pause: bool,
    /// The link has 1000 Mbit/s; without it 100.
    pub gigabit: bool,
    /// The PHY is behind an RGMII; without it an MII or GMII.
    pub rgmii: bool,
    /// The PHY is behind an RMII.
    pub rmii: bool,
    /// Frames above 1518 octets are received and sent, where the MAC can. Without it none above 1536 comes in.
    pub jumbo: bool,
    /// The MAC has a second queue each way. It stays idle: its descriptor is never the device's, and stands behind the
    /// transmit ring's.
    pub idle_queue: bool,
}

/// Octets before each received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offset {
    /// None: the IP header is then at an address that is no multiple of 4.
    #[default]
    None,
    /// Two, in the first buffer of a frame, where the MAC can: the IP header is aligned.
    Two,
}

impl Offset {
    /// As octets.
    pub const fn octets(self) -> u32 {
        match self {
            Offset::None => 0,
            Offset::Two => 2,
        }
    }
}

/// When a frame is copied into the ring's own buffer before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounce {
    /// Where its address is not as the DMA wants it.
    #[default]
    Unaligned,
    /// Always.
    Always,
}

/// What becomes of a received frame whose descriptor tells of a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faulty {
    /// Its buffers go back to the device, and it is counted.
    #[default]
    Dropped,
    /// It is handed up as it is, for a stack that checks it itself.
    HandedUp,
}

/// Which of a controller's start steps hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepCondition {
    /// Two octets before each frame were asked for.
    Offset,
    /// Pause frames are obeyed.
    Pause,
    /// 1000 Mbit/s.
    Gigabit,
    /// 100 Mbit/s.
    Megabit,
    /// Behind an RGMII.
    Rgmii,
    /// Behind an RMII.
    Rmii,
    /// Frames above 1518 octets were asked for.
    Jumbo,
}

impl Options {
    /// Whether a step for this case is carried out.
    pub fn holds(&self, when: StepCondition) -> bool {
        match when {
            StepCondition::Offset => self.offset != Offset::None,
            StepCondition::Pause => self.pause,
            StepCondition::Gigabit => self.gigabit,
            StepCondition::Megabit => !self.gigabit,
            StepCondition::Rgmii => self.rgmii,
            StepCondition::Rmii => self.rmii,
            StepCondition::Jumbo => self.jumbo,
        }
    }
}
