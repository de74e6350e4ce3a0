//! Floating point numbers as Go prints them.

/// Digits and decimal exponent of the shortest text that reads back as `number`: `d.ddd × 10^exponent`.
fn shortest(number: f64) -> (bool, String, i32) {
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    (number.is_sign_negative(), digits, exponent.parse().unwrap_or(0))
}

fn with_exponent(negative: bool, digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if negative { "-" } else { "" };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.unsigned_abs())
}

fn positional(negative: bool, digits: &str, exponent: i32) -> String {
    let sign = if negative { "-" } else { "" };
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    let (before, after) = digits.split_at_checked(whole).unwrap_or((digits, ""));
    format!("{sign}{before}.{after}")
}

/// Go's `FormatFloat(number, 'g', -1, 64)`, with `.inf` and `.nan` as go-yaml writes them.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return ".nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf".into() } else { "-.inf".into() };
    }
    let (negative, digits, exponent) = shortest(number);
    if !(-4..6).contains(&exponent) {
        with_exponent(negative, &digits, exponent)
    } else {
        positional(negative, &digits, exponent)
    }
}

/// Go's `json.Marshal` of a float: positional between 1e-6 and 1e21, else with exponent.
pub fn json_float(number: f64) -> String {
    if !number.is_finite() {
        return float_text(number);
    }
    let (negative, digits, exponent) = shortest(number);
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = with_exponent(negative, &digits, exponent);
        // encoding/json writes e-9 instead of e-09.
        match text.split_once("e-0") {
            Some((mantissa, exponent)) => format!("{mantissa}e-{exponent}"),
            None => text,
        }
    } else {
        positional(negative, &digits, exponent)
    }
}

/// A float as it stands in kustomize's output: through JSON, where a whole number becomes an integer again.
pub(super) fn rendered_float(number: f64) -> String {
    let json = json_float(number);
    if let Ok(number) = json.parse::<i64>() {
        return number.to_string();
    }
    if let Ok(number) = json.parse::<u64>() {
        return number.to_string();
    }
    float_text(number)
}

#[cfg(test)]
mod tests {
    use super::rendered_float;

    #[test]
    fn floats_are_printed_as_go_prints_them_after_json() {
        let check = |number: f64, expect: &str| assert_eq!(rendered_float(number), expect, "{number}");
        check(1.0, "1");
        check(1.5, "1.5");
        check(1e3, "1000");
        check(1.5e10, "15000000000");
        check(1e20, "1e+20");
        check(123_456_789.123_456_79, "1.2345678912345679e+08");
        check(1_234_567.5, "1.2345675e+06");
        check(1e-6, "1e-06");
        check(1e-7, "1e-07");
        check(0.1e-7, "1e-08");
        check(18_446_744_073_709_551_616.0, "1.8446744073709552e+19");
        check(-9.223_372_036_854_776e18, "-9.223372036854776e+18");
        check(-0.0, "0");
        check(f64::INFINITY, ".inf");
        check(f64::NAN, ".nan");
        check(100_000.5, "100000.5");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
    }
}
