#pragma once
/// @file
/// RankStory: what one rank has of the model and of the batch, and what it does in a step, part by part.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/shapes/shape_recorder.hpp"
#include "common/gpu/meta/tape.hpp"
#include "common/train/cli/technique.hpp"

/// @brief Chapter 11: a recorded step, told rank by rank.
namespace ultra::stepper {

/// @brief What a rank has of a weight.
struct HeldWeight {
  std::string name;         ///< nn::Parameter::name()
  Shape whole;              ///< of the whole weight
  std::vector<Range> held;  ///< of each dimension: what passes on this rank compute with
  std::size_t updated = 0;  ///< elements of these whose optimizer states it keeps
};

/// @brief What a rank has of an activation, or of its gradient, while a part runs.
struct HeldTensor {
  std::string name;         ///< as tensor_parallel::RecordedTensor's
  Shape shape;              ///< on this rank
  std::vector<Range> rows;  ///< positions in each sequence
  Range columns = {};       ///< features
  std::size_t width = 0;    ///< features that there are
};

/// @brief One pass of one part of the model.
struct PartPass {
  std::string name;                                              ///< "o_proj", "attention"
  tensor_parallel::PartKind kind{};                              ///< which part
  tensor_parallel::Pass pass = tensor_parallel::Pass::kForward;  ///< which direction
  std::optional<std::size_t> layer = {};                         ///< its block
  Range sequences = {};                                          ///< of the global batch
  std::vector<HeldTensor> inputs = {};                           ///< what it was given
  std::vector<HeldTensor> outputs = {};                          ///< what it has made
  std::vector<std::string> weights = {};                         ///< names, see HeldWeight
};

/// @brief What a deed is.
enum class DeedKind : std::uint8_t {
  kWork,      ///< operations of one part, or between two parts
  kExchange,  ///< a collective
  kSend,      ///< a message leaves
  kReceive,   ///< a message that has been waited for is here
};

/// @brief Something that a rank does in one go.
struct Deed {
  DeedKind kind = DeedKind::kWork;       ///< what it is
  std::string phase;                     ///< of the step: "forward, block 0"
  std::optional<std::size_t> part = {};  ///< index into RankStory::parts; absent between them
  std::vector<std::string> works = {};   ///< "matmul 4096 x 4096 x 2048", with "2 times" behind
  double flop = 0;                       ///< of them
  gpu::ExchangeKind exchange{};          ///< which collective
  gpu::TapedGroup group = {};            ///< of the exchange or message
  std::uint64_t number = 0;              ///< of the exchange in its group; or the message's name
  std::string label = {};                ///< of the exchange
  int peer = 0;                          ///< of the message, in the world
  std::size_t bytes = 0;                 ///< of the exchange's whole tensor, or the message
  std::size_t sent_bytes = 0;            ///< by this rank
  std::size_t in_use = 0;                ///< bytes of memory behind it
};

/// @brief One rank's step.
struct RankStory {
  int rank = 0;                                         ///< of the world
  std::vector<std::pair<std::string, int>> place = {};  ///< along each axis with several ranks
  Range sequences = {};                                 ///< of the global batch
  std::vector<Range> positions = {};                    ///< in each sequence
  std::vector<Range> layers = {};                       ///< blocks, one range for each chunk
  std::vector<HeldWeight> weights = {};                 ///< of its chunks
  std::vector<PartPass> parts = {};                     ///< in the order in which they ran
  std::vector<Deed> deeds = {};                         ///< in the host's order
};

/// @brief Most ranks whose stories fit beside each other.
inline constexpr int kMostRanks = 16;

/// @brief Records a step and tells it of every rank.
///
/// A receive stands where the rank waits for it, everything else where it is issued.
/// @param setup  with --on; gets one more technique, which listens.
/// @throws ConfigError for more than kMostRanks ranks; what train::record_step() throws.
[[nodiscard]] std::vector<RankStory> tell_ranks(train::Setup& setup);

/// The deed of each rank in one round; absent where it waits, or has done all.
using Round = std::vector<std::optional<std::size_t>>;

/// @brief Plays the stories side by side: in each round a rank does its next deed, unless that is an
/// exchange whose other members are not there yet, or the receive of what has not been sent before.
/// @return by round and rank, until all is done.
/// @throws InternalError when all that have something left wait for each other.
[[nodiscard]] std::vector<Round> rounds_of(const std::vector<RankStory>& stories);

}  // namespace ultra::stepper
