//! Timestamps: go-yaml turns an unquoted date into a time, and kustomize prints that as RFC 3339.

/// Returns `text` as RFC 3339 with nanoseconds trimmed, if go-yaml reads it as a timestamp.
///
/// Accepted are `YYYY-M-D`, the same with ` H:M:S[.frac]`, and with `T` or `t`, time and zone (`Z`, `±HH:MM`).
pub(super) fn canonical(text: &str) -> Option<String> {
    let mut reader = Reader { bytes: text.as_bytes() };
    let year = reader.digits(4, 4)?;
    if reader.bytes.first() != Some(&b'-') {
        return None;
    }
    reader.expect(b'-')?;
    let month = reader.digits(1, 2)?;
    reader.expect(b'-')?;
    let day = reader.digits(1, 2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days(year, month) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if reader.bytes.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let separator = reader.next()?;
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let hour = reader.digits(1, 2)?;
    reader.expect(b':')?;
    let minute = reader.digits(1, 2)?;
    reader.expect(b':')?;
    let second = reader.digits(1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = reader.fraction()?;
    let zone = if separator == b' ' { String::from("Z") } else { reader.zone()? };
    reader.bytes.is_empty().then(|| format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"))
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let length = self.bytes.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if length < least {
            return None;
        }
        let (number, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// A fraction of a second without its trailing zeros; digits past nanoseconds are cut.
    fn fraction(&mut self) -> Option<String> {
        if !matches!(self.bytes.first(), Some(b'.' | b',')) {
            return Some(String::new());
        }
        self.next()?;
        let length = self.bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return None;
        }
        let (digits, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        let digits = std::str::from_utf8(digits.get(..length.min(9))?).ok()?.trim_end_matches('0');
        Some(if digits.is_empty() { String::new() } else { format!(".{digits}") })
    }

    fn zone(&mut self) -> Option<String> {
        let sign = self.next()?;
        if sign == b'Z' {
            return Some("Z".into());
        }
        if !matches!(sign, b'+' | b'-') {
            return None;
        }
        let hours = self.digits(2, 2)?;
        self.expect(b':')?;
        let minutes = self.digits(2, 2)?;
        if hours > 24 || minutes > 60 {
            return None;
        }
        Some(if hours == 0 && minutes == 0 {
            "Z".into()
        } else {
            format!("{}{hours:02}:{minutes:02}", char::from(sign))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn reads_what_go_reads() {
        let check = |input: &str, expect: Option<&str>| assert_eq!(canonical(input).as_deref(), expect, "{input}");
        check("2001-12-14", Some("2001-12-14T00:00:00Z"));
        check("2001-1-1T1:2:3Z", Some("2001-01-01T01:02:03Z"));
        check("2001-12-14 21:59:43.10", Some("2001-12-14T21:59:43.1Z"));
        check("2001-12-14t21:59:43.10-05:00", Some("2001-12-14T21:59:43.1-05:00"));
        check("2004-02-29", Some("2004-02-29T00:00:00Z"));
        check("2001-02-30", None);
        check("2001-12-14T21:59:43", None);
        check("2001-12", None);
        check("20011-12-14", None);
        check("2001-12-14 24:00:00", None);
    }
}
