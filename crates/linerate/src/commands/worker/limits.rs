//! What a plan may do on a bench.

use linerate_plan::Need;
use linerate_work::Bench;

/// Why a plan that needs this is not for this bench; `None`: it is.
pub(in crate::commands) fn refused(bench: &Bench, needed: &[Need]) -> Option<String> {
    let is_allowed = |need: &Need| match need {
        Need::Boot | Need::Reset | Need::Programs => bench.limits.commands,
        Need::Setting(name) => bench.limits.allows(name),
    };
    let need = needed.iter().find(|need| !is_allowed(need))?;
    let how = match need {
        Need::Setting(name) => format!("settings = [\"{name}\"]"),
        _ => "commands = true".to_owned(),
    };
    Some(format!("{} does not allow it: {need}; {how} under [limits] in its file would", bench.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_allows_what_its_file_says() {
        let bench = |limits: &str| Bench::parse(&format!("name='a'\ntarget='local'\n[limits]\n{limits}")).unwrap();
        let mtu = [Need::Setting("target.mtu".to_owned())];
        assert_eq!(refused(&bench(""), &[]), None);
        assert!(refused(&bench(""), &mtu).unwrap().contains("it changes target.mtu; settings = [\"target.mtu\"]"));
        assert_eq!(refused(&bench("settings = ['target.*']"), &mtu), None);
        let programs = [Need::Programs, Need::Setting("target.custom.x".to_owned())];
        assert!(refused(&bench("settings = ['target.*']"), &programs).unwrap().contains("commands = true"));
        assert!(refused(&bench("commands = true"), &programs).unwrap().contains("target.custom.x"));
        assert_eq!(refused(&bench("commands = true\nsettings = ['target.custom.*']"), &programs), None);
    }
}
