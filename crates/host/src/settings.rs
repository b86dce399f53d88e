//! Settings (stand-in until the branch `settings` is merged).
//! Knows sysctls only.

/// Settings of a machine.
pub struct Settings;

/// Why not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

impl Settings {
    /// Of this interface.
    pub fn new(_interface: Option<&str>) -> Settings {
        Settings
    }

    /// The names that this machine has.
    pub fn names(&self) -> Vec<String> {
        vec!["sysctl.net.ipv4.tcp_sack".to_owned()]
    }

    /// Reads one.
    pub fn get(&self, name: &str) -> Result<String, SettingError> {
        let text = std::fs::read_to_string(path(name)?).map_err(|error| SettingError(format!("{name}: {error}")))?;
        Ok(text.trim().to_owned())
    }

    /// Sets one.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SettingError> {
        std::fs::write(path(name)?, value).map_err(|error| SettingError(format!("{name}: {error}")))
    }
}

fn path(name: &str) -> Result<String, SettingError> {
    let sysctl = name.strip_prefix("sysctl.").ok_or_else(|| SettingError(format!("this machine has no {name}")))?;
    Ok(format!("/proc/sys/{}", sysctl.replace('.', "/")))
}
