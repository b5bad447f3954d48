#include "common/train/run/agree.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/comm/comm_error.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::train {
namespace {

// A verdict is empty, or one of these and the error's message.
constexpr char kConfigError = 'C';
constexpr char kFileError = 'F';

std::string verdict_of(const std::function<void()>& fn) {
  try {
    fn();
    return {};
  } catch (const ConfigError& error) {
    return kConfigError + std::string(error.what());
  } catch (const FileError& error) {
    return kFileError + std::string(error.what());
  }
}

std::string first_error(const std::vector<std::string>& verdicts) {
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    const std::string& verdict = verdicts[rank];
    if (verdict.empty()) continue;
    if (rank == 0) return verdict;
    return fmt::format("{}rank {}: {}", verdict[0], rank, verdict.substr(1));
  }
  return {};
}

}  // namespace

void agree(const Communicator& world, const std::function<void()>& fn) {
  if (world.size() == 1) return fn();
  const std::vector<std::string> verdicts = gather_texts(world, verdict_of(fn));
  const std::string error = broadcast_text(world, first_error(verdicts));
  if (error.empty()) return;
  try {
    // A rank that threw at once could be missed before the others have the error. By messages: what the
    // ranks do not agree on may be how collectives are done.
    static_cast<void>(gather_texts(world, {}));
    static_cast<void>(broadcast_text(world, {}));
  } catch (const CommError&) {
    // Whoever has gone on has thrown: then all ranks have the error.
  }
  if (error[0] == kConfigError) throw ConfigError(error.substr(1));
  throw FileError(error.substr(1));
}

void expect_same(const Communicator& world, const std::string& said, const Compare& compare) {
  const std::vector<std::string> all = gather_texts(world, said);  // on rank 0
  agree(world, [&] {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const std::string difference = compare(static_cast<int>(rank), all[rank], all[0]);
      if (!difference.empty()) throw ConfigError(difference);
    }
  });
}

namespace {

/// The bytes, by what stands for them, and the name, each in a line.
std::string description_of(const data::Dataset& dataset) {
  return fmt::format("{} bytes and the hash {:016x}\n{}", format_count(dataset.size()),
                     dataset.hash(), in_quotes(dataset.source()));
}

std::string difference_of_texts(int rank, std::string_view said, std::string_view by_rank_0) {
  const std::vector<std::string_view> own = split(said, '\n');
  const std::vector<std::string_view> first = split(by_rank_0, '\n');
  if (own[0] == first[0]) return {};
  return fmt::format(
      "rank {} reads {} with {}, rank 0 reads {} with {}. Copy the same text to every machine.",
      rank, own[1], own[0], first[1], first[0]);
}

}  // namespace

void expect_same_text(const Communicator& world, const data::Dataset& dataset) {
  expect_same(world, description_of(dataset), difference_of_texts);
}

}  // namespace ultra::train
