//! `Retry-After`: how long a server asks to wait, as seconds or as a date (RFC 9110, sections 5.6.7 and 10.2.3).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::http::HeaderMap;

/// The longest wait that is taken from a server.
const LONGEST: Duration = Duration::from_secs(3600);

/// The time to wait; `None` if the server does not say, or not in a way that can be read.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(milliseconds).min(LONGEST));
    }
    // The clock of the server, if it says it, since its date is relative to that.
    let now = || text("date").and_then(seconds_since_1970).or_else(local_seconds);
    wait(text("retry-after")?, now)
}

fn local_seconds() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs())
}

fn wait(text: &str, now: impl Fn() -> Option<u64>) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        let is_time = seconds.is_finite() && seconds >= 0.0;
        return is_time.then(|| Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64())));
    }
    let seconds = seconds_since_1970(text)?.saturating_sub(now()?);
    Some(Duration::from_secs(seconds).min(LONGEST))
}

/// A date of HTTP in any of its three formats, all in UTC.
fn seconds_since_1970(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match *words.as_slice() {
        // Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        // Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let day: u64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let year = match (year.len(), year.parse::<u64>().ok()?) {
        (2, year) if year < 70 => year + 2000,
        (2, year) => year + 1900,
        (4, year) if year >= 1970 => year,
        _ => return None,
    };
    let mut parts = time.split(':').map(|part| part.parse::<u64>().ok().filter(|part| *part <= 60));
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let days = days_since_1970(year, month, day);
    (parts.next().is_none() && hours < 24 && minutes < 60)
        .then_some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Days of the Gregorian calendar. Years begin in March, so that a leap day is the last day of one.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    // 719,468 days lie between 1 March of the year 0 and 1 January 1970.
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST, seconds_since_1970, wait};

    #[test]
    fn the_three_formats_name_the_same_second() {
        // The examples of RFC 9110; `date -u -d '1994-11-06 08:49:37' +%s`.
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(seconds_since_1970(text), Some(784_111_777), "{text}");
        }
        // `date -u -d '…' +%s` around leap days.
        assert_eq!(seconds_since_1970("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_since_1970("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        assert_eq!(seconds_since_1970("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200));
        assert_eq!(seconds_since_1970("Mon, 01 Mar 2100 00:00:00 GMT"), Some(4_107_542_400));
    }

    #[test]
    fn seconds_and_dates_become_waits_of_at_most_an_hour() {
        let wait = |text| wait(text, || Some(784_111_777));
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("1e300"), Some(LONGEST));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:00 GMT"), Some(Duration::from_secs(23)));
        assert_eq!(wait("Mon, 07 Nov 1994 08:50:00 GMT"), Some(LONGEST));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO), "a time in the past");
        for text in ["", "-1", "inf", "NaN", "soon", "Sun, 06 Nov 1994", "Sun, 06 Now 1994 08:49:37 GMT", "a b c d 5"] {
            assert_eq!(wait(text), None, "{text}");
        }
    }
}
