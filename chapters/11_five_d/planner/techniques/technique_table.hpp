#pragma once
/// @file
/// Each technique alone: what it keeps, what it sends, and what hides it. The cheat sheet of the
/// book, made of the chapters' closed forms.

#include <optional>
#include <string>
#include <vector>

#include "chapters/11_five_d/planner/time/prediction.hpp"
#include "common/base/json.hpp"

namespace ultra::planner {

/// @brief A technique on all ranks, and no other.
struct TechniqueRow {
  std::string name;                        ///< "ZeRO-3"
  std::string beside;                      ///< what hides its exchanges
  std::string impossible{};                ///< why the model cannot be trained so; empty: it can
  std::optional<Prediction> prediction{};  ///< memory and time, of what is possible
  double sent_bytes = 0;                   ///< by a rank in a step, on average
  double waits = 0;                        ///< seconds of a step that exchanges take, as the
                                           ///< program hides them
  double unhidden = 0;                     ///< the same of a program that hides nothing
};

/// @brief Bytes that a rank sends in a step, on average over the stages.
///
/// Of replicas zero::sent_per_rank(), of tp tensor_parallel::activation_exchanges(), of cp
/// context_parallel::sent_forward() and sent_backward() with gathered keys and values, of pp
/// pipeline_parallel::messages_of(), of ep expert_parallel::exchanged_bytes(); layouts of one axis.
[[nodiscard]] double sent_bytes(const Question& question, const Layout& layout);

/// @brief The table's rows: dp, ZeRO's stages, recomputation, tp without and with sequence
/// parallelism, cp, three schedules of pp and, for a mixture, ep.
[[nodiscard]] std::vector<TechniqueRow> technique_rows(const Question& question, std::size_t ranks,
                                                       memory::NumberFormats precision);

/// @brief The table as text.
[[nodiscard]] std::string format_techniques(const Question& question, std::size_t ranks,
                                            const std::vector<TechniqueRow>& rows);

/// @brief The same as JSON: a list.
[[nodiscard]] Json techniques_to_json(const std::vector<TechniqueRow>& rows);

}  // namespace ultra::planner
