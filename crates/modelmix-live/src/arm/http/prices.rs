//! Prices per token: what an answer cost by its usage, and the most that a request can cost.

use serde_json::Value;

use super::settings::check_amount;

/// Tokens that prices are given for.
const UNIT: f64 = 1e6;

/// Tokens that a server may add to a request, as its template of chats does: above the templates of the known open models.
const ADDED_TOKENS: usize = 256;

/// Prices of a server that charges per token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TokenPrices {
    /// Per million tokens of the request.
    pub(super) input: f64,
    /// Per million tokens of the answer.
    pub(super) output: f64,
    /// The most that a request can cost, if the user says so.
    pub(super) max_cost: Option<f64>,
    /// The most tokens of one sample.
    pub(super) max_tokens: u64,
}

impl TokenPrices {
    /// The prices of a free server are `None`.
    pub(super) fn check(
        input: Option<f64>,
        output: Option<f64>,
        max_cost: Option<f64>,
        max_tokens: Option<u64>,
    ) -> Result<Option<Self>, String> {
        check_amount("price_per_million_input_tokens", input)?;
        check_amount("price_per_million_output_tokens", output)?;
        check_amount("max_cost_per_request", max_cost)?;
        if input.is_none() && output.is_none() {
            return match max_cost {
                Some(cost) => Err(format!(
                    "`max_cost_per_request` is {cost}, but there is no price; set `price_per_million_input_tokens` and \
                     `price_per_million_output_tokens`"
                )),
                None => Ok(None),
            };
        }
        let (input, output) = (input.unwrap_or(0.0), output.unwrap_or(0.0));
        if output > 0.0 && max_tokens.is_none() && max_cost.is_none() {
            return Err(format!(
                "`price_per_million_output_tokens` is {output}, but nothing limits the tokens, so that no cost can be \
                 reserved; set `max_tokens` or `max_cost_per_request`"
            ));
        }
        Ok(Some(Self { input, output, max_cost, max_tokens: max_tokens.unwrap_or(0) }))
    }

    /// What an answer cost; `None` if it does not say the tokens that are charged.
    pub(super) fn cost(&self, answer: &Value) -> Option<f64> {
        let usage = answer.get("usage")?;
        let tokens = |price: f64, names: [&str; 2]| {
            let count = names.iter().find_map(|name| usage.get(name)).and_then(Value::as_u64);
            // Exact below 2⁵³ tokens.
            if price == 0.0 { Some(0.0) } else { count.map(|count| count as f64 * price / UNIT) }
        };
        let input = tokens(self.input, ["prompt_tokens", "input_tokens"])?;
        Some(input + tokens(self.output, ["completion_tokens", "output_tokens"])?)
    }

    /// The most that a request can cost: a token has at least one byte of the request, and all samples may be as long as they
    /// can.
    pub(super) fn reserve(&self, request_bytes: usize, count: usize) -> f64 {
        self.max_cost.unwrap_or_else(|| {
            let input = (request_bytes + ADDED_TOKENS) as f64 * self.input;
            (input + count as f64 * self.max_tokens as f64 * self.output) / UNIT
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::TokenPrices;

    #[test]
    fn the_cost_is_that_of_the_usage() {
        let prices = TokenPrices::check(Some(0.25), Some(2.0), None, Some(100)).unwrap().unwrap();
        // By hand: 1,200 × 0.25 / 10⁶ + 80 × 2 / 10⁶ = 0.0003 + 0.00016.
        let cost = prices.cost(&json!({"usage": {"prompt_tokens": 1200, "completion_tokens": 80}})).unwrap();
        assert!((cost - 0.00046).abs() < 1e-15, "{cost}");
        let cost = prices.cost(&json!({"usage": {"input_tokens": 4, "output_tokens": 0}})).unwrap();
        assert!((cost - 0.000001).abs() < 1e-18, "{cost}");
        for answer in [
            json!({}),
            json!({"usage": null}),
            json!({"usage": {"prompt_tokens": 3}}),
            json!({"usage": {"prompt_tokens": -3, "completion_tokens": 1}}),
            json!({"usage": {"prompt_tokens": "3", "completion_tokens": 1}}),
        ] {
            assert_eq!(prices.cost(&answer), None, "{answer}");
        }
        let output_only = TokenPrices::check(None, Some(2.0), None, Some(100)).unwrap().unwrap();
        assert_eq!(output_only.cost(&json!({"usage": {"completion_tokens": 500_000}})), Some(1.0));
    }

    #[test]
    fn the_reservation_is_above_every_cost() {
        let prices = TokenPrices::check(Some(1.0), Some(10.0), None, Some(50)).unwrap().unwrap();
        // By hand: (744 + 256) × 1 / 10⁶ + 3 × 50 × 10 / 10⁶ = 0.001 + 0.0015.
        assert!((prices.reserve(744, 3) - 0.0025).abs() < 1e-15);
        let prices = TokenPrices::check(Some(1.0), Some(10.0), Some(0.5), None).unwrap().unwrap();
        assert_eq!(prices.reserve(744, 3), 0.5);
    }

    #[test]
    fn prices_that_cannot_be_reserved_are_refused() {
        assert_eq!(TokenPrices::check(None, None, None, None), Ok(None));
        let problem = |input, output, max_cost| TokenPrices::check(input, output, max_cost, None).unwrap_err();
        assert!(problem(None, Some(2.0), None).contains("set `max_tokens`"));
        assert!(problem(Some(-1.0), None, None).contains("is -1;"));
        assert!(problem(None, Some(f64::NAN), None).contains("is NaN;"));
        assert!(problem(None, Some(f64::INFINITY), None).contains("is inf;"));
        assert!(problem(None, None, Some(1.0)).contains("no price"));
        assert!(TokenPrices::check(Some(1.0), None, None, None).is_ok(), "only the request is charged");
    }
}
