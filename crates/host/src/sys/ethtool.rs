//! The ioctls on an interface: what a driver says of itself, its own statistics, its registers and those of its PHY.
//! Knows the layout of linux/ethtool.h; which statistic means what is for [`crate::counters`].

use std::ffi::c_char;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::memory::GuardedBuffer;

// linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GREGS: u32 = 0x04;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_GSTRING_LEN: usize = 32;
/// sizeof(struct ethtool_drvinfo).
const DRVINFO_LEN: usize = 196;
/// Octets of the longest structure of [`IoctlWords`], which is struct ethtool_coalesce.
const WORDS_LEN: usize = 23 * 4;
/// No driver has this many statistics; a count beyond it is garbage.
const MOST_STATISTICS: usize = 65_536;
// linux/sockios.h.
const SIOCGMIIPHY: u32 = 0x8947;
const SIOCGMIIREG: u32 = 0x8948;

/// Settings that can be read and written as words of 32 bits; kernels before 5.6, which have no ethtool netlink, have
/// these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoctlWords {
    /// struct ethtool_cmd.
    Settings,
    /// struct ethtool_coalesce.
    Coalesce,
    /// struct ethtool_ringparam.
    Rings,
    /// struct ethtool_channels.
    Channels,
    /// struct ethtool_pauseparam.
    Pause,
    /// struct ethtool_eee.
    Eee,
    /// struct ethtool_value, by the command that reads it.
    Value(u32),
}

impl IoctlWords {
    /// The command that reads, after which comes the one that writes, and how many words the structure has with it.
    fn command(self) -> (u32, usize) {
        match self {
            IoctlWords::Settings => (0x01, 11),
            IoctlWords::Coalesce => (0x0e, 23),
            IoctlWords::Rings => (0x10, 9),
            IoctlWords::Channels => (0x3c, 9),
            IoctlWords::Pause => (0x12, 4),
            IoctlWords::Eee => (0x44, 10),
            IoctlWords::Value(command) => (command, 2),
        }
    }
}

/// Whose statistics: a set of names, and the command for their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticsOf {
    /// The driver's own, as `ethtool -S` shows them.
    Driver,
    /// The PHY's, as `ethtool --phy-statistics` shows them; Linux 4.6.
    Phy,
}

impl StatisticsOf {
    /// ETH_SS_STATS with ETHTOOL_GSTATS, ETH_SS_PHY_STATS with ETHTOOL_GPHYSTATS.
    const fn numbers(self) -> (u32, u32) {
        match self {
            StatisticsOf::Driver => (1, 0x1d),
            StatisticsOf::Phy => (7, 0x4a),
        }
    }
}

/// What a driver says of itself (struct ethtool_drvinfo). Empty strings are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver's name.
    pub driver: Option<String>,
    /// The driver's version; recent kernels put their own here.
    pub version: Option<String>,
    /// The device's firmware.
    pub firmware: Option<String>,
    /// Where the device is, such as a PCI address.
    pub bus: Option<String>,
    /// How many statistics the driver has.
    statistics: usize,
    /// Octets of the driver's register dump.
    registers: usize,
}

/// An open socket through which the ioctl is made.
pub struct Ethtool {
    socket: UdpSocket,
    interface: [c_char; libc::IFNAMSIZ],
}

impl Ethtool {
    /// Makes ready to ask about `interface`, in the calling thread's network namespace.
    pub fn new(interface: &str) -> io::Result<Ethtool> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from as c_char;
        }
        // Any socket will do for the ioctl (netdevice(7)); a kernel without IPv4 may still have IPv6.
        let socket = UdpSocket::bind(("127.0.0.1", 0))
            .or_else(|_| UdpSocket::bind(("0.0.0.0", 0)))
            .or_else(|_| UdpSocket::bind(("::", 0)))?;
        Ok(Ethtool { socket, interface: name })
    }

    /// What the driver says of itself.
    pub fn driver_info(&self) -> io::Result<DriverInfo> {
        let mut buffer = [0u64; DRVINFO_LEN.div_ceil(8)];
        self.ask(ETHTOOL_GDRVINFO, &mut buffer)?;
        let bytes = bytes_of(&buffer);
        let text = |field: usize| text_of(&bytes[4 + field * 32..][..32]);
        Ok(DriverInfo {
            driver: text(0),
            version: text(1),
            firmware: text(2),
            bus: text(3),
            // Behind five strings, 12 reserved octets and n_priv_flags.
            statistics: get_u32(&buffer, 45) as usize,
            // Behind testinfo_len and eedump_len: the last.
            registers: get_u32(&buffer, 48) as usize,
        })
    }

    /// Statistics by the names that their owner gives them; none where it has none.
    pub fn statistics(&self, of: StatisticsOf) -> io::Result<Vec<(String, u64)>> {
        let count = self.statistics_count(of)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > MOST_STATISTICS {
            return Err(io::Error::other(format!("the driver claims {count} statistics")));
        }
        self.statistics_as_of(of, count)
    }

    /// The statistics, of which there were so many just before.
    fn statistics_as_of(&self, of: StatisticsOf, count: usize) -> io::Result<Vec<(String, u64)>> {
        let (set, command) = of.numbers();
        let changed = || io::Error::other("the driver changed its statistics while they were read; try again");
        let grown = |error: io::Error| if error.raw_os_error() == Some(libc::EFAULT) { changed() } else { error };
        // The kernel writes as many as there are by then, whatever was asked, and a queue added in between adds some.
        let mut names = GuardedBuffer::new(12 + count * ETH_GSTRING_LEN)?;
        set_u32(names.words_mut(), 1, set);
        set_u32(names.words_mut(), 2, count as u32);
        self.ask_for_many(ETHTOOL_GSTRINGS, &mut names).map_err(grown)?;
        let mut values = GuardedBuffer::new(8 + count * 8)?;
        set_u32(values.words_mut(), 1, count as u32);
        self.ask_for_many(command, &mut values).map_err(grown)?;
        let (names, values) = (names.words(), values.words());
        if get_u32(names, 2) as usize != count || get_u32(values, 1) as usize != count {
            return Err(changed());
        }
        let names = bytes_of(names);
        let name = |at: usize| text_of(&names[12 + at * ETH_GSTRING_LEN..][..ETH_GSTRING_LEN]);
        Ok((0..count).filter_map(|at| Some((name(at)?, values[1 + at]))).collect())
    }

    /// The driver's register dump and the version of its layout, in words of the machine's order; at most this many.
    /// Needs CAP_NET_ADMIN. A driver without one answers EOPNOTSUPP.
    pub fn register_dump(&self, most_words: usize) -> io::Result<(u32, Vec<u32>)> {
        let octets = self.driver_info()?.registers;
        if octets == 0 {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        if octets > most_words * 4 {
            return Err(io::Error::other(format!("the driver claims {octets} bytes of registers")));
        }
        // struct ethtool_regs: command, version, length, then the octets. The kernel writes at most what was asked
        // (net/ethtool/ioctl.c, ethtool_get_regs), and a driver may say that it has less; or, in error, more.
        let mut buffer = GuardedBuffer::new(12 + octets)?;
        set_u32(buffer.words_mut(), 2, octets as u32);
        self.ask_for_many(ETHTOOL_GREGS, &mut buffer)?;
        let words = buffer.words();
        let octets = octets.min(get_u32(words, 2) as usize);
        Ok((get_u32(words, 1), (0..octets / 4).map(|at| get_u32(words, 3 + at)).collect()))
    }

    /// The address of the interface's PHY on its management bus.
    pub fn phy_address(&self) -> io::Result<u16> {
        Ok(self.ask_phy(SIOCGMIIPHY, [0; 4])?[0])
    }

    /// A register of a PHY. `phy` is its address; of clause 45, MDIO_PHY_ID_C45 with the port and the device
    /// (linux/mdio.h). Needs CAP_NET_ADMIN.
    pub fn phy_register(&self, phy: u16, register: u16) -> io::Result<u16> {
        Ok(self.ask_phy(SIOCGMIIREG, [phy, register, 0, 0])?[3])
    }

    /// A request whose data stand in the ifreq itself.
    fn ask_phy(&self, command: u32, fields: [u16; 4]) -> io::Result<[u16; 4]> {
        let mut request = PhyRequest { interface: self.interface, fields, rest: [0; 2] };
        // SAFETY: `request` begins as an ifreq does, is as large at least, and its name ends in NUL, for `interface` is
        // shorter than IFNAMSIZ. The kernel reads it and writes the fields (net/core/dev_ioctl.c).
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), command as _, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request.fields) }
    }

    /// The words of a structure after the command, in its order.
    pub fn words(&self, which: IoctlWords) -> io::Result<Vec<u32>> {
        let (command, count) = which.command();
        let mut buffer = [0u64; 12];
        self.ask(command, &mut buffer)?;
        Ok((1..count).map(|at| get_u32(&buffer, at)).collect())
    }

    /// Writes what [`Ethtool::words`] reads.
    pub fn set_words(&self, which: IoctlWords, words: &[u32]) -> io::Result<()> {
        let (command, count) = which.command();
        if words.len() + 1 != count {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut buffer = [0u64; 12];
        for (at, word) in words.iter().enumerate() {
            set_u32(&mut buffer, at + 1, *word);
        }
        self.ask(command + 1, &mut buffer)
    }

    fn statistics_count(&self, of: StatisticsOf) -> io::Result<usize> {
        // struct ethtool_sset_info: command, reserved, mask of 64 bits, then a count for each bit that is set.
        let set = 1 << of.numbers().0;
        let mut buffer = [0u64; 4];
        buffer[1] = set;
        match (self.ask(ETHTOOL_GSSET_INFO, &mut buffer), of) {
            (Ok(()), _) if buffer[1] & set != 0 => Ok(get_u32(&buffer, 4) as usize),
            (Ok(()), _) | (Err(_), StatisticsOf::Phy) => Ok(0),
            // Before 2.6.34 there is no such command; the count stands in the driver's description.
            (Err(_), StatisticsOf::Driver) => Ok(self.driver_info()?.statistics),
        }
    }

    /// Whether the NIC is set up to stamp every packet that it receives: SIOCGHWTSTAMP, struct hwtstamp_config of
    /// linux/net_tstamp.h. Errors where the driver does not tell, as those do that cannot stamp.
    pub fn stamps_all_received(&self) -> io::Result<bool> {
        const SIOCGHWTSTAMP: u32 = 0x89B1;
        const HWTSTAMP_FILTER_ALL: u32 = 1;
        // flags, tx_type, rx_filter: three ints.
        let mut buffer = [0u64; 2];
        let mut request = libc::ifreq {
            ifr_name: self.interface,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: buffer.as_mut_ptr().cast() },
        };
        // SAFETY: `request` is a valid ifreq whose name ends in NUL, for `interface` is shorter than IFNAMSIZ. Its data
        // points to `buffer`, exclusively ours during the call, to which the kernel writes three ints.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCGHWTSTAMP as _, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(get_u32(&buffer, 2) == HWTSTAMP_FILTER_ALL) }
    }

    /// Makes the ioctl of a command whose structure has its size from its kind alone: of GDRVINFO 196 octets, of
    /// GSSET_INFO with one bit set 20, and of [`IoctlWords`] 92 at most. The first field is set to `command`.
    fn ask<const N: usize>(&self, command: u32, buffer: &mut [u64; N]) -> io::Result<()> {
        const { assert!(N > 1, "a command and its first field") };
        let fits = match command {
            ETHTOOL_GDRVINFO => N * 8 >= DRVINFO_LEN,
            ETHTOOL_GSSET_INFO => N * 8 >= 16 + 4 * buffer[1].count_ones() as usize,
            _ => N * 8 >= WORDS_LEN,
        };
        assert!(fits, "the caller's buffer is too short for {command:#x}");
        set_u32(buffer, 0, command);
        // SAFETY: `buffer` is as long as the command's structure at least, as was just seen.
        unsafe { self.make(buffer.as_mut_ptr()) }
    }

    /// Makes the ioctl of a command whose structure has entries behind its fields, as many as the driver has by then.
    fn ask_for_many(&self, command: u32, buffer: &mut GuardedBuffer) -> io::Result<()> {
        set_u32(buffer.words_mut(), 0, command);
        // SAFETY: what is beyond the buffer is a page that the kernel cannot write to either, where it stops.
        unsafe { self.make(buffer.as_mut_ptr()) }
    }

    /// Makes the ioctl.
    ///
    /// # Safety
    /// `structure` begins with a command, and what the kernel reads and writes there of this command is the caller's
    /// alone, or cannot be written to.
    unsafe fn make(&self, structure: *mut u64) -> io::Result<()> {
        let mut request = libc::ifreq {
            ifr_name: self.interface,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: structure.cast() },
        };
        // SAFETY: `request` is a valid ifreq whose name ends in NUL, for `interface` is shorter than IFNAMSIZ. The kernel
        // keeps nothing of it after the call; for the structure the caller answers.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// struct ifreq with struct mii_ioctl_data (linux/mii.h) in its union: phy_id, reg_num, val_in, val_out.
#[repr(C)]
struct PhyRequest {
    interface: [c_char; libc::IFNAMSIZ],
    fields: [u16; 4],
    /// The union has 24 octets where pointers have 8, and 16 else.
    rest: [u64; 2],
}

const _: () = assert!(size_of::<PhyRequest>() >= size_of::<libc::ifreq>());

/// The structures' 32-bit fields, in the machine's order of octets.
fn set_u32(buffer: &mut [u64], at: usize, value: u32) {
    let mut word = buffer[at / 2].to_ne_bytes();
    word[at % 2 * 4..][..4].copy_from_slice(&value.to_ne_bytes());
    buffer[at / 2] = u64::from_ne_bytes(word);
}

fn get_u32(buffer: &[u64], at: usize) -> u32 {
    let word = buffer[at / 2].to_ne_bytes();
    u32::from_ne_bytes(word[at % 2 * 4..][..4].try_into().expect("four octets"))
}

fn bytes_of(buffer: &[u64]) -> Vec<u8> {
    buffer.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A string of fixed room, ended by NUL where it is shorter; `None` when empty.
fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_32_bits_are_where_c_puts_them() {
        let mut buffer = [0u64; 3];
        for at in 0..6 {
            set_u32(&mut buffer, at, 100 + at as u32);
        }
        let bytes = bytes_of(&buffer);
        for at in 0..6 {
            assert_eq!(get_u32(&buffer, at), 100 + at as u32);
            assert_eq!(bytes[at * 4..][..4], (100 + at as u32).to_ne_bytes());
        }
    }

    #[test]
    fn strings_end_at_nul_or_at_their_room() {
        assert_eq!(text_of(b"rx_drops\0\0junk"), Some("rx_drops".to_owned()));
        assert_eq!(text_of(&[b'x'; 32]), Some("x".repeat(32)));
        assert_eq!(text_of(&[0; 32]), None);
    }

    #[test]
    fn statistics_that_grow_meanwhile_overwrite_nothing() {
        // A veth of many queues has some statistics for each.
        let made = std::thread::spawn(|| {
            // SAFETY: no memory is passed; unshare(2) moves this thread alone, which ends below.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return None;
            }
            let queues = ["numrxqueues", "512", "numtxqueues", "512"];
            let mut link = std::process::Command::new("ip");
            link.args(["link", "add", "many0"])
                .args(queues)
                .args(["type", "veth", "peer", "name", "many1"])
                .args(queues);
            link.status().is_ok_and(|status| status.success()).then(|| {
                let ethtool = Ethtool::new("many0").unwrap();
                let all = ethtool.statistics(StatisticsOf::Driver).unwrap();
                let early = [1, 2, all.len() / 8].map(|count| ethtool.statistics_as_of(StatisticsOf::Driver, count));
                assert_eq!(ethtool.statistics(StatisticsOf::Phy).unwrap(), [], "it has no PHY");
                (all.len(), early, ethtool.statistics(StatisticsOf::Driver).unwrap().len())
            })
        })
        .join()
        .unwrap();
        let Some((many, early, again)) = made else {
            eprintln!("SKIPPED statistics_that_grow_meanwhile: no network namespace, or no ip(8), for this user");
            return;
        };
        assert!(many > 500 && again == many, "{many} statistics");
        for one in early {
            assert!(one.unwrap_err().to_string().contains("try again"));
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a-name-of-sixteen", "eth\0"] {
            assert_eq!(Ethtool::new(name).err().map(|e| e.kind()), Some(io::ErrorKind::InvalidInput), "{name:?}");
        }
    }
}
