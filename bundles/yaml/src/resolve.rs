//! What a plain scalar means: go-yaml v3's rules for reading, v2's for reading kustomizations and for quoting.

use super::rules::Rules;
use super::timestamp;

/// The meaning of a plain scalar.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `null`, `~` or empty.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// A larger one.
    Uint(u64),
    /// A float, infinity and not-a-number included.
    Float(f64),
    /// A date or time, as RFC 3339.
    Timestamp(String),
    /// `<<`.
    Merge,
    /// Nothing of the above.
    Text,
}

/// Reads `text` by the rules.
pub(super) fn resolve_with(text: &str, rules: Rules) -> Scalar {
    match rules {
        Rules::V3 | Rules::Json | Rules::V3RepeatedKeys | Rules::Manifest | Rules::Values => resolve_v3(text),
        Rules::V2 => match resolve_v2(text) {
            // For compatibility go-yaml v2 leaves times as they are written.
            Scalar::Timestamp(_) => Scalar::Text,
            other => other,
        },
    }
}

/// Reads `text` by go-yaml v3's rules.
pub fn resolve_v3(text: &str) -> Scalar {
    resolve(text, false)
}

/// Reads `text` by go-yaml v2's rules: as v3, and `yes`, `no`, `on`, `off`, `y`, `n` are booleans.
pub(crate) fn resolve_v2(text: &str) -> Scalar {
    resolve(text, true)
}

fn resolve(text: &str, old: bool) -> Scalar {
    let Some(first) = text.bytes().next() else {
        return Scalar::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text, old),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => leading_point(text),
        },
        b'+' | b'-' | b'0'..=b'9' => number(text, old),
        b'<' if text == "<<" => Scalar::Merge,
        _ => Scalar::Text,
    }
}

fn word(text: &str, old: bool) -> Scalar {
    match text {
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if old => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if old => Scalar::Bool(false),
        _ => Scalar::Text,
    }
}

/// `.5`, where single underscores between digits are allowed as in Go's literals.
fn leading_point(text: &str) -> Scalar {
    let bytes = text.as_bytes();
    let between_digits = |at: usize| {
        let digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
        at > 0 && digit(at - 1) && digit(at + 1)
    };
    if bytes.iter().enumerate().any(|(at, byte)| *byte == b'_' && !between_digits(at)) {
        return Scalar::Text;
    }
    let plain: String = text.chars().filter(|character| *character != '_').collect();
    float(&plain)
}

fn number(text: &str, old: bool) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    // Most texts that start so are names and versions: leave early.
    if text.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'+' | b'-' | b'.' | b'_' | b'x' | b'X' | b'o' | b'O' | b':' | b'T' | b't' | b'Z' | b' ' | b',')) {
        return Scalar::Text;
    }
    if let Some(time) = timestamp::canonical(text) {
        return Scalar::Timestamp(time);
    }
    let plain: std::borrow::Cow<'_, str> = if text.contains('_') { text.replace('_', "").into() } else { text.into() };
    if let Some(integer) = integer(&plain) {
        return integer;
    }
    let float = float(&plain);
    if float != Scalar::Text {
        return float;
    }
    let digits = |prefix: &str, radix| plain.strip_prefix(prefix).and_then(|rest| signed(rest, "", radix));
    let negative = |prefix: &str, radix| plain.strip_prefix(prefix).and_then(|rest| signed(rest, "-", radix));
    digits("0b", 2)
        .or_else(|| negative("-0b", 2))
        .or_else(|| if old { None } else { digits("0o", 8).or_else(|| negative("-0o", 8)) })
        .unwrap_or(Scalar::Text)
}

/// Go's second try for prefixed numbers, where the digits may carry a sign of their own.
fn signed(rest: &str, sign: &str, radix: u32) -> Option<Scalar> {
    i64::from_str_radix(&format!("{sign}{rest}"), radix).ok().map(Scalar::Int)
}

/// An integer with Go's base prefixes: `0x`, `0o`, `0b` in either case, a leading zero for octal.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (unsigned.get(2..)?, 16),
        [b'0', b'o' | b'O', ..] => (unsigned.get(2..)?, 8),
        [b'0', b'b' | b'B', ..] => (unsigned.get(2..)?, 2),
        [b'0', _, ..] => (unsigned.get(1..)?, 8),
        _ => (unsigned, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return i64::try_from(-i128::from(size)).ok().map(Scalar::Int);
    }
    if size > i64::MAX.unsigned_abs() {
        // Go reads the unsigned form without a sign only.
        return (!text.starts_with('+')).then_some(Scalar::Uint(size));
    }
    i64::try_from(size).ok().map(Scalar::Int)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?` that fits a double.
fn float(text: &str) -> Scalar {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (unsigned.get(..at).unwrap_or_default(), unsigned.get(at + 1..)),
        None => (unsigned, None),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    if !mantissa_fits || !exponent_fits {
        return Scalar::Text;
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Scalar::Float(number),
        _ => Scalar::Text,
    }
}

/// Says whether go-yaml v2 would read `text` as a string when it stands unquoted.
pub(super) fn stays_text(text: &str) -> bool {
    // Words that mean something begin with one of these letters.
    let is_ordinary = |first: &u8| first.is_ascii_alphabetic() && !b"yYnNtTfFoO".contains(first);
    if text.as_bytes().first().is_some_and(is_ordinary) {
        return true;
    }
    matches!(resolve_v2(text), Scalar::Text | Scalar::Merge) && !is_base60(text)
}

/// `12:30:45`: a number in YAML 1.1, which go-yaml does not read but quotes for other readers.
pub(super) fn is_base60(text: &str) -> bool {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-')) {
        return false;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut groups = unsigned.split(':');
    let first = groups.next().unwrap_or_default();
    if !first.starts_with(|character: char| character.is_ascii_digit())
        || !first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return false;
    }
    let rest: Vec<&str> = groups.collect();
    let Some((last, middle)) = rest.split_last() else {
        return false;
    };
    let sixty = |group: &str| match group.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [ten, digit] => matches!(ten, b'0'..=b'5') && digit.is_ascii_digit(),
        _ => false,
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    middle.iter().all(|group| sixty(group))
        && sixty(last)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_go_yaml_v3_says() {
        let check = |input: &str, expect: Scalar| assert_eq!(resolve_v3(input), expect, "{input}");
        check("", Scalar::Null);
        check("~", Scalar::Null);
        check("nULL", Scalar::Text);
        check("true", Scalar::Bool(true));
        check("tRUE", Scalar::Text);
        check("yes", Scalar::Text);
        check("12", Scalar::Int(12));
        check("+12", Scalar::Int(12));
        check("0777", Scalar::Int(511));
        check("0o777", Scalar::Int(511));
        check("0O14", Scalar::Int(12));
        check("0x_1f", Scalar::Int(31));
        check("-0b11", Scalar::Int(-3));
        check("0x", Scalar::Text);
        check("0b", Scalar::Text);
        check("00", Scalar::Int(0));
        check("1_000", Scalar::Int(1000));
        check("08", Scalar::Float(8.0));
        check("5.", Scalar::Float(5.0));
        check(".5", Scalar::Float(0.5));
        check(".5_0", Scalar::Float(0.5));
        check(".e3", Scalar::Text);
        check(".", Scalar::Text);
        check("1e3", Scalar::Float(1000.0));
        check("1e400", Scalar::Text);
        check("7e12345", Scalar::Text);
        check("0x1p-2", Scalar::Text);
        check("18446744073709551615", Scalar::Uint(u64::MAX));
        check("-9223372036854775808", Scalar::Int(i64::MIN));
        check("1.28.4", Scalar::Text);
        check("-", Scalar::Text);
        check("<<", Scalar::Merge);
        check("2024-01-02", Scalar::Timestamp("2024-01-02T00:00:00Z".into()));
    }

    #[test]
    fn texts_that_another_reader_would_misread_do_not_stay_plain() {
        for text in ["yes", "n", "Off", "12", "1e3", "null", "", "12:30", "1:2:3.5", "2024-01-02", ".inf"] {
            assert!(!stays_text(text), "{text}");
        }
        for text in ["v1", "1.28.4", "a:b", "12:60", "yEs", "=", "<<", "0o8", "12:"] {
            assert!(stays_text(text), "{text}");
        }
    }
}
