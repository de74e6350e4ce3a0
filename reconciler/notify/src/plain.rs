//! Text of others as plain text: names and reasons come from clusters and repositories, and are nobody's markup.

/// The same text on one line, without signs that steer a terminal, a mail or the direction of writing.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|sign| !steers(*sign)).map(|sign| if sign.is_control() { ' ' } else { sign }).collect()
}

/// Signs that change how what is around them is shown.
fn steers(sign: char) -> bool {
    matches!(sign, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// At most so many characters of it.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_steers_nothing() {
        assert_eq!(plain("a\r\nBcc: x\u{202e}y\u{1b}[31mz\u{feff}"), "a  Bcc: xy [31mz");
        assert_eq!(bounded("äöü", 3), "äöü");
        assert_eq!(bounded("äöüß", 3), "äö…");
    }
}
