-- Every worker with what is known of it, in no order.
--
-- Returns the time, then a row for each worker.

return describe({ written(now) })
