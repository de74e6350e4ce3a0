//! Durations as people write them: `90s`, `10m`, `1h30m`, `2d`.

use std::time::Duration;

/// A text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 30s, 10m, 1h30m or 2d")]
pub struct DurationError(pub(super) String);

/// Reads `1d`, `2h`, `3m`, `4s` and sums of them in that order of writing; `0` stands for nothing.
///
/// # Errors
/// [`DurationError`] for everything else, and for more than 10 years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0u64;
    let mut digits = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let unit = match character {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(error()),
        };
        let number: u64 = digits.parse().map_err(|_| error())?;
        digits.clear();
        seconds = number.checked_mul(unit).and_then(|part| seconds.checked_add(part)).ok_or_else(error)?;
    }
    if text.is_empty() || !digits.is_empty() || seconds > 10 * 366 * 86_400 {
        return Err(error());
    }
    Ok(Duration::from_secs(seconds))
}

/// The shortest text that [`parse_duration`] reads back; parts of a second are left out.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, name) in [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
        if rest >= unit {
            text.push_str(&(rest / unit).to_string());
            text.push(name);
            rest %= unit;
        }
    }
    text
}

pub(super) fn serialize<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*duration))
}

/// As [`serialize`]; what is not set is left out by whoever holds it.
pub(super) fn serialize_some<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serialize(duration, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, seconds) in [("0", 0), ("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800)] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_secs(), seconds, "{text}");
            assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }
        assert_eq!(format_duration(Duration::from_secs(5430)), "1h30m30s");
    }

    #[test]
    fn refuses_the_rest() {
        for bad in ["", "5", "m", "-5m", "5 m", "5min", "1.5h", "99999999999999999999s", "4000d"] {
            assert!(parse_duration(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
