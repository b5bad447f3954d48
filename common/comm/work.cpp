#include "common/comm/work.hpp"

#include "common/comm/progress_engine.hpp"

namespace ultra {

void Work::wait() {
  if (operation_) engine_->wait(operation_);
  operation_.reset();
}

bool Work::done() {
  if (operation_ && engine_->poll(operation_)) operation_.reset();
  return operation_ == nullptr;
}

}  // namespace ultra
