#include "common/comm/comm_error.hpp"

#include "common/base/interrupt.hpp"

namespace ultra {

ErrorKind kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RankFailed& failed) {
    return failed.kind();
  } catch (const CommError&) {
    return ErrorKind::kComm;
  } catch (const NotWritten&) {
    return ErrorKind::kNotWritten;
  } catch (const Interrupted&) {
    return ErrorKind::kInterrupted;
  } catch (const InternalError&) {
    return ErrorKind::kOther;
  } catch (const Error&) {
    return ErrorKind::kBadInput;
  } catch (...) {
    return ErrorKind::kOther;
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is not an exception";
  }
}

}  // namespace ultra
