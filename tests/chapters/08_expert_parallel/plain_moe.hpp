#pragma once
/// @file
/// A mixture of experts as its papers write it: token after token, in doubles, without a
/// permutation, a group, a message or a backward pass. What the chapter's layer is compared with.

#include <map>

#include "chapters/08_expert_parallel/moe_config.hpp"
#include "common/nn/parameter.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel::test {

using namespace ultra::test;

using Vector = std::vector<double>;

/// @brief The weights of a layer, by the end of their names.
using PlainWeights = std::map<std::string, Vector>;

/// @brief Those of whole parameters whose names begin with `prefix` and a dot.
inline PlainWeights plain_weights(const std::vector<nn::Parameter*>& parameters,
                                  const std::string& prefix) {
  PlainWeights weights;
  for (const nn::Parameter* parameter : parameters) {
    weights[parameter->name().substr(prefix.size() + 1)] = parameter->value().to_vector();
  }
  return weights;
}

/// @brief y = W x.
inline Vector times(const Vector& w, const Vector& x) {
  Vector y(w.size() / x.size(), 0.0);
  for (std::size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
  return y;
}

/// @brief down(silu(gate x) * up x).
inline Vector plain_swiglu(const Vector& gate, const Vector& up, const Vector& down,
                           const Vector& x) {
  Vector g = times(gate, x);
  const Vector u = times(up, x);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] *= u[i] / (1 + std::exp(-g[i]));
  return times(down, g);
}

/// @brief What a layer gives for a batch of whole sequences.
struct PlainResult {
  Vector y;                     ///< [tokens * hidden]
  double terms = 0;             ///< of the loss
  std::vector<double> choices;  ///< [experts] how often each was chosen
  double dropped = 0;           ///< choices that found no place
  double margin = 1e300;        ///< smallest distance of a choice to one that was not made
};

/// @brief A layer, token after token.
class PlainMoe {
 public:
  /// @param sequences  of the global batch.
  PlainMoe(PlainWeights weights, MoeConfig config, std::size_t hidden, std::size_t seq,
           std::size_t sequences)
      : weights_(std::move(weights)),
        config_(std::move(config)),
        hidden_(hidden),
        seq_(seq),
        sequences_(static_cast<double>(sequences)) {}

  [[nodiscard]] PlainResult operator()(const Vector& x) const {
    PlainResult result;
    result.choices.assign(config_.num_experts, 0.0);
    const std::size_t batch = x.size() / (hidden_ * seq_);
    const std::size_t group = config_.capacity_group == CapacityGroup::kSequence ? 1 : batch;
    for (std::size_t first = 0; first < batch; first += group) {
      add_group(x, first * seq_, group * seq_, result);
    }
    return result;
  }

 private:
  struct Token {
    Vector x, affinities;
    std::vector<std::size_t> chosen;
    std::vector<bool> kept;
  };

  [[nodiscard]] Token route(const Vector& x, std::size_t number, PlainResult& result) const {
    Token token;
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(number * hidden_);
    token.x.assign(begin, begin + static_cast<std::ptrdiff_t>(hidden_));
    const Vector logits = times(weights_.at("gate.weight"), token.x);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    result.terms += config_.z_coefficient * std::log(sum) * std::log(sum) /
                    (static_cast<double>(seq_) * sequences_);
    for (const double logit : logits) {
      token.affinities.push_back(config_.router == RouterKind::kSoftmax
                                     ? std::exp(logit) / sum
                                     : 1 / (1 + std::exp(-logit)));
    }
    Vector scores = token.affinities;
    if (const auto biases = weights_.find("gate.e_score_correction_bias");
        biases != weights_.end()) {
      for (std::size_t e = 0; e < scores.size(); ++e) scores[e] += biases->second[e];
    }
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return scores[a] > scores[b]; });
    for (std::size_t k = 0; k + 1 < order.size(); ++k) {
      result.margin = std::min(result.margin, scores[order[k]] - scores[order[k + 1]]);
    }
    token.chosen.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(config_.top_k));
    token.kept.assign(config_.top_k, true);
    for (const std::size_t expert : token.chosen) ++result.choices[expert];
    return token;
  }

  void drop(std::vector<Token>& tokens, PlainResult& result) const {
    if (!config_.capacity_factor) return;
    const auto places = static_cast<std::size_t>(
        std::ceil(*config_.capacity_factor * static_cast<double>(config_.top_k * tokens.size()) /
                      static_cast<double>(config_.num_experts) -
                  1e-9));
    std::vector<std::size_t> taken(config_.num_experts, 0);
    for (std::size_t k = 0; k < config_.top_k; ++k) {
      for (Token& token : tokens) {
        if (++taken[token.chosen[k]] <= places) continue;
        token.kept[k] = false;
        ++result.dropped;
      }
    }
  }

  void add_balance(const std::vector<Token>& tokens, PlainResult& result) const {
    if (config_.balance != Balance::kAux) return;
    const auto T = static_cast<double>(seq_);
    for (std::size_t first = 0; first < tokens.size(); first += seq_) {
      for (std::size_t e = 0; e < config_.num_experts; ++e) {
        double chosen = 0;
        double probability = 0;
        for (std::size_t t = first; t < first + seq_; ++t) {
          const Token& token = tokens[t];
          chosen += static_cast<double>(std::ranges::count(token.chosen, e));
          probability += token.affinities[e] /
                         std::accumulate(token.affinities.begin(), token.affinities.end(), 0.0);
        }
        const double share =
            static_cast<double>(config_.num_experts) / (static_cast<double>(config_.top_k) * T);
        result.terms += config_.aux_coefficient * share * chosen * probability / T / sequences_;
      }
    }
  }

  [[nodiscard]] Vector output(const Token& token) const {
    Vector y(hidden_, 0.0);
    double sum = 0;
    for (const std::size_t expert : token.chosen) sum += token.affinities[expert];
    if (config_.top_k == 1) sum = 1;
    for (std::size_t k = 0; k < config_.top_k; ++k) {
      if (!token.kept[k]) continue;
      const std::string name = "experts." + std::to_string(token.chosen[k]);
      const Vector of_expert =
          plain_swiglu(weights_.at(name + ".w1.weight"), weights_.at(name + ".w3.weight"),
                       weights_.at(name + ".w2.weight"), token.x);
      for (std::size_t i = 0; i < hidden_; ++i) {
        y[i] += token.affinities[token.chosen[k]] / sum * of_expert[i];
      }
    }
    if (config_.shared_experts == 0) return y;
    const Vector shared = plain_swiglu(weights_.at("shared_experts.gate_proj.weight"),
                                       weights_.at("shared_experts.up_proj.weight"),
                                       weights_.at("shared_experts.down_proj.weight"), token.x);
    for (std::size_t i = 0; i < hidden_; ++i) y[i] += shared[i];
    return y;
  }

  void add_group(const Vector& x, std::size_t first, std::size_t count, PlainResult& result) const {
    std::vector<Token> tokens;
    for (std::size_t t = first; t < first + count; ++t) tokens.push_back(route(x, t, result));
    drop(tokens, result);
    add_balance(tokens, result);
    for (const Token& token : tokens) {
      const Vector y = output(token);
      result.y.insert(result.y.end(), y.begin(), y.end());
    }
  }

  PlainWeights weights_;
  MoeConfig config_;
  std::size_t hidden_;
  std::size_t seq_;
  double sequences_;
};

}  // namespace ultra::expert_parallel::test
