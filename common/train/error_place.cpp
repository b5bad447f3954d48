#include "common/train/error_place.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::train {
namespace {

/// Throws the error under way again, with the place, if it is of one of these types.
template <class First, class... Others>
void rethrow_one_of(const std::string& place) {
  try {
    throw;
  } catch (const First& error) {
    throw First(fmt::format("{} [{}]", error.what(), place));
  } catch (...) {
    if constexpr (sizeof...(Others) > 0) rethrow_one_of<Others...>(place);
  }
}

}  // namespace

void rethrow_with_place(const std::string& place) {
  if (place.empty()) throw;
  try {
    throw;
  } catch (const RankFailed& failed) {
    // A rank that threw has said where; one that was killed could not.
    if (failed.kind() != ErrorKind::kComm) throw;
    throw RankFailed(failed.failed_rank(), failed.kind(),
                     fmt::format("{} [{}]", failed.what(), place));
  } catch (...) {
    rethrow_one_of<CommTimeout, CommMismatch, Deadlock, ShapeError, ConfigError, FileError,
                   NumericError, OutOfMemory, InternalError>(place);
    throw;
  }
}

}  // namespace ultra::train
