"""What people hear of a job: errors in few words, news, results, and the guarantee that it has."""
